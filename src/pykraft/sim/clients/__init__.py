"""What clients and applications do in a world."""

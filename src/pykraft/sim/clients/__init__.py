"""The clients and applications of a world."""

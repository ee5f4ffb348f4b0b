"""What a correct replica does, line by line, and which test proves each line."""

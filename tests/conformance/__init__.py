"""The list of what a correct replica does, and which test proves each line."""

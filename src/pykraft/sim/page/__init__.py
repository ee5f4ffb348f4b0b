"""The page of one run: what was recorded, in words and drawings, for stepping through it in a browser."""

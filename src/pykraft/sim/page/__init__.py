"""The page of one run: what was recorded, told in words and drawn so that a browser steps through it."""

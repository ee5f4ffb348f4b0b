"""The group of commands ``pykraft pipeline``: write tables, and read them."""

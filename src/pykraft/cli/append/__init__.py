"""``pykraft append``: the command, and the reader of its lines."""

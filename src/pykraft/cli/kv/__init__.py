"""The commands of ``pykraft kv``: a node that serves, and calls to it."""

"""The key-value store as a service: a node with an HTTP/JSON API, a quorum to try it, and a client of several nodes.

`pykraft kv` runs it. Programs in Python need no service: `pykraft.recipes` is the same store in a program.
"""

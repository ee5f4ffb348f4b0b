"""Converts the core's messages to and from wire bodies, one module per RPC, all versions; and negotiates versions."""

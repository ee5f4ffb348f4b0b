"""Between the core's messages and the wire: one module per RPC, all versions; and which versions to speak."""

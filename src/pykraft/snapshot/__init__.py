"""Snapshots in Kafka's checkpoint files: their names, how they are written, fetched, read and retired (KIP-630)."""

"""Snapshots in Kafka's checkpoint files (KIP-630): their names, and how they are written, fetched, read and retired."""

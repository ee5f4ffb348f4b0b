"""Snapshots in Kafka's checkpoint files. Their place; they come with a later version."""

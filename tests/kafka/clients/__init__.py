"""Kafka's clients in other languages, pointed at a quorum of ours: programs that use one, and a run with kills."""

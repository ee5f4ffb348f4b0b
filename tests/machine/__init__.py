"""Replicated state machines: records, sessions, results, and nodes of one process."""

"""Oracles of progress: what must continue, come back, or stop in time."""

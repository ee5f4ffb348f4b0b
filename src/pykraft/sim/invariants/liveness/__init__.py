"""Oracles of progress: what must go on, come back, or stop in time."""

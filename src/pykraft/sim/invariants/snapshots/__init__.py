"""Oracles of snapshots: when they are taken, what they hold, and what the cleaner removes."""

"""Snapshots of a node: when one is created, and how it is written, loaded, downloaded and removed."""

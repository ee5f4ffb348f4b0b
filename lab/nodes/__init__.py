"""Nodes as processes, what they said that they committed, and whether their logs have it."""

"""Oracles of the replicated log: append, commit, and what logs have in common."""

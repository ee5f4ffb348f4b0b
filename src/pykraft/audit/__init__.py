"""Audits the directories of all replicas of a quorum: each for itself, and against the others."""

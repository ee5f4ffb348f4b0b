"""Tests of the faults: each family in its file."""

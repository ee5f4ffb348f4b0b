"""Tests of the simulator: its parts, its invariants, and the bugs that it must notice."""

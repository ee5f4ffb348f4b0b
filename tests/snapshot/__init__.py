"""Tests of the snapshot files."""

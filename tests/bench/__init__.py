"""Tests of `pykraft.bench`."""

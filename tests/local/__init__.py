"""Tests of `pykraft.local`."""

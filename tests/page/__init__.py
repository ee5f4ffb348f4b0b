"""Tests of `pykraft.page`."""

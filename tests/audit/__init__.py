"""Tests of `pykraft.audit`."""

"""Tests of `pykraft.campaign`."""

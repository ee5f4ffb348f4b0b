"""Tests of `pykraft.client`."""

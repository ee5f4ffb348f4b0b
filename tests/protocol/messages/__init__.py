"""Tests of the message tables, one file per RPC."""

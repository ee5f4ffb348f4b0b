"""Tests of what the states check themselves."""

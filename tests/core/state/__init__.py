"""Tests of the invariants that the states check themselves."""

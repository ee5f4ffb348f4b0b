"""Tests of `lab.bench`."""

"""Tests of the conversions between core and wire."""

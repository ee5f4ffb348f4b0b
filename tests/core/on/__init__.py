"""Tests of the handlers, one module for each."""

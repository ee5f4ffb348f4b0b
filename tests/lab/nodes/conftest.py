"""Fixtures of tests that start processes."""

from tests.processes.conftest import children

__all__ = ["children"]

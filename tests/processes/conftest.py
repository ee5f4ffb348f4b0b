"""Fixtures of tests that start processes."""

import sys
from collections.abc import Iterator

import pytest

from pykraft.local.child import Children


@pytest.fixture
def children() -> Iterator[Children]:
    """The processes of one test; dead, and their logs shown if it failed, when it ends."""
    with Children(report=lambda ends: print(ends, file=sys.stderr)) as children:
        yield children

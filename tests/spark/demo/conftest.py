"""What was told, and processes that end with their test."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from pykraft.local.child import Children
from tests.spark.demo.fakes import Lines


@pytest.fixture
def told() -> Lines:
    """What was told."""
    return Lines()


@pytest.fixture
def children() -> Iterator[Children]:
    """The processes of one test; dead when it ends."""
    with Children(report=lambda ends: print(ends, file=sys.stderr)) as children:
        yield children

"""A recorder of the output, and processes that end with their test."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from pykraft.local.child import Children
from tests.spark.conftest import node

if TYPE_CHECKING:  # it needs pyspark, and this file is read without it, too
    from tests.lab.lines import Lines


__all__ = ["children", "lines", "node"]


@pytest.fixture
def lines() -> Lines:
    """What was lines."""
    from tests.lab.lines import Lines

    return Lines()


@pytest.fixture
def children() -> Iterator[Children]:
    """The processes of one test; dead when it ends."""
    with Children(report=lambda ends: print(ends, file=sys.stderr)) as children:
        yield children

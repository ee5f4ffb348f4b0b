"""Fixtures of tests that start processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.processes.child import Children


@pytest.fixture
def children() -> Iterator[Children]:
    """The processes of one test; dead, and their logs shown, when it ends."""
    with Children() as children:
        yield children

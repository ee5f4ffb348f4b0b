"""Both event loops for every test that needs one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from pykraft.server.run import loop_factory


@pytest.fixture(params=["asyncio", "uvloop"])
def runner(request: pytest.FixtureRequest) -> Iterator[asyncio.Runner]:
    """Runs coroutines on a loop of its own; what the loop is left with is closed."""
    with asyncio.Runner(loop_factory=loop_factory(request.param)) as runner:
        yield runner

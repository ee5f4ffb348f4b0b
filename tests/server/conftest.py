"""Both event loops: a coroutine test runs on each, and another test gets a ``runner`` of each if it asks for one."""

import asyncio
import inspect
from collections.abc import Iterator

import pytest

from pykraft.server.run import loop_factory

LOOPS = ("asyncio", "uvloop")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give each coroutine test its ``runner``, without a parameter of that name."""
    if inspect.iscoroutinefunction(metafunc.function) and "runner" not in metafunc.fixturenames:
        metafunc.fixturenames.append("runner")
        metafunc.parametrize("runner", LOOPS, indirect=True)


@pytest.fixture(params=LOOPS)
def runner(request: pytest.FixtureRequest) -> Iterator[asyncio.Runner]:
    """Runs coroutines on a loop of its own; what the loop is left with is closed."""
    with asyncio.Runner(loop_factory=loop_factory(request.param)) as runner:
        yield runner

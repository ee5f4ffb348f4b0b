"""How a test that is a coroutine is judged: it ends within a minute; its loop complains of nothing but being busy."""

import asyncio
from collections.abc import Coroutine
from typing import Any

COROUTINE_S_MAX = 60
HELD_UP = "the event loop was blocked for "


async def judged(test: Coroutine[Any, Any, None]) -> None:
    """Await the test."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    async with asyncio.timeout(COROUTINE_S_MAX):
        await test
    assert complaints == [], "the loop complains of what nobody awaited or caught"


def without_lag(said: str) -> str:
    """Standard error without the lines that tell of a loop that was held up: that is the machine's fault."""
    return "".join(line for line in said.splitlines(keepends=True) if HELD_UP not in line)

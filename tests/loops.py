"""How a test that is a coroutine is judged: it ends within a minute, and its loop complains of nothing."""

import asyncio
from collections.abc import Coroutine
from typing import Any

COROUTINE_S_MAX = 60


async def judged(test: Coroutine[Any, Any, None]) -> None:
    """Await the test."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    async with asyncio.timeout(COROUTINE_S_MAX):
        await test
    assert complaints == [], "the loop complains of what nobody awaited or caught"

"""The callers of one simulated process: each makes one call at a time, a command that the test draws, or a read.

Source: Jepsen's processes, of which each is one logical thread of the history.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any, Final, TypeAlias

from pykraft.errors import PykraftError
from pykraft.machine.testing.recorded import RecordedNode

DrawCommand: TypeAlias = Callable[[Random], Any]
"""Draws the next command."""
READ_PROBABILITY: Final = 0.3
PAUSE_MS_MAX: Final = 80
TIMEOUT_MS_MAX: Final = 900


class MachineCaller:
    """One caller on one process."""

    def __init__(self, draw: DrawCommand, node: RecordedNode, rng: Random) -> None:
        self._draw = draw
        self._node = node
        self._rng = rng

    async def run(self) -> None:
        """Call again and again; the history says what became of each call."""
        while True:
            await asyncio.sleep(self._rng.randrange(PAUSE_MS_MAX) / 1_000)
            timeout_ms = self._rng.randint(TIMEOUT_MS_MAX // 30, TIMEOUT_MS_MAX)
            with suppress(PykraftError):
                if self._rng.random() < READ_PROBABILITY:
                    async with self._node.read(timeout_ms=timeout_ms):
                        pass
                else:
                    await self._node.execute(self._draw(self._rng), timeout_ms=timeout_ms)

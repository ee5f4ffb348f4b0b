"""The callers of one simulated process: each makes one call at a time, and remembers what it was told.

A call whose process ends stays open: it may be applied, or not.

Source: Jepsen's processes, of which each is one logical thread of the history.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, TypeAlias

from pykraft.errors import CommandRejectedError, OutcomeUnknownError, PykraftError
from pykraft.machine.replicated import Replicated
from pykraft.machine.testing.judge import CallVerdict, MachineCall
from pykraft.machine.testing.reference import Numbered, Reference, WatchedMachine
from pykraft.sim.machine.clock import Clock

DrawCommand: TypeAlias = Callable[[Random], Any]
"""Draws the next command."""
READ_PROBABILITY: Final = 0.3
PAUSE_MS_MAX: Final = 80
TIMEOUT_MS_MAX: Final = 900


@dataclass(slots=True)
class CallHistory:
    """All calls of a world, in the order in which they began."""

    clock: Clock
    draw: DrawCommand
    reference: Reference = field(default_factory=Reference)
    calls: list[MachineCall] = field(default_factory=list)
    answered: int = 0
    """Commands that were answered with a result or a rejection."""
    answered_end_offset: int = 0


class MachineCaller:
    """One caller on one process."""

    def __init__(
        self, history: CallHistory, node_id: int, replicated: Replicated[WatchedMachine[Any, Any]], rng: Random
    ) -> None:
        self._history = history
        self._node_id = node_id
        self._replicated = replicated
        self._rng = rng

    async def run(self) -> None:
        """Call again and again."""
        while True:
            await asyncio.sleep(self._rng.randrange(PAUSE_MS_MAX) / 1_000)
            timeout_ms = self._rng.randint(TIMEOUT_MS_MAX // 30, TIMEOUT_MS_MAX)
            if self._rng.random() < READ_PROBABILITY:
                await self._read(timeout_ms)
            else:
                await self._execute(self._history.draw(self._rng), timeout_ms)

    async def _execute(self, command: Any, timeout_ms: int) -> None:  # noqa: ANN401 - the program's
        history = self._history
        call = self._begin(repr(command), is_read=False)
        try:
            result = await self._replicated.execute(Numbered(call.number, command), timeout_ms=timeout_ms)
        except CommandRejectedError as error:
            call.verdict, call.answer = CallVerdict.APPLIED, f"rejected: {error}"
        except OutcomeUnknownError:
            call.verdict = CallVerdict.UNKNOWN
        except PykraftError:
            call.verdict = CallVerdict.NOT_APPLIED
        else:
            call.verdict = CallVerdict.APPLIED
            call.answer = repr(self._replicated.machine.results.serialize(result))
        call.answered_us = history.clock.now_us
        if call.verdict is CallVerdict.APPLIED:
            history.answered += 1
            applied = history.reference.by_number.get(call.number)
            if applied is not None:
                history.answered_end_offset = max(history.answered_end_offset, applied.offset + 1)

    async def _read(self, timeout_ms: int) -> None:
        call = self._begin("", is_read=True)
        try:
            async with self._replicated.read(timeout_ms=timeout_ms) as machine:
                call.position, call.answer = machine.found()
        except PykraftError:
            call.verdict = CallVerdict.NOT_APPLIED
        else:
            call.verdict = CallVerdict.APPLIED
        call.answered_us = self._history.clock.now_us

    def _begin(self, command: str, *, is_read: bool) -> MachineCall:
        history = self._history
        number = len(history.calls) + 1
        call = MachineCall(
            number=number,
            node_id=self._node_id,
            story=f"read {number}" if is_read else f"call {number}, {command},",
            is_read=is_read,
            invoked_us=history.clock.now_us,
        )
        history.calls.append(call)
        return call

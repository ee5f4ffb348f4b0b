"""What a caller notes of each answer that a state machine's node can give."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random
from typing import Any, cast

import pytest

from pykraft.errors import CommandRejectedError, NotAppliedError, OutcomeUnknownError, QuorumUnavailableError
from pykraft.machine import Replicated
from pykraft.machine.testing import callers
from pykraft.machine.testing.callers import MachineCaller
from pykraft.machine.testing.judge import CallVerdict
from pykraft.machine.testing.recorded import CallHistory, RecordedNode
from pykraft.machine.testing.reference import Reference, WatchedMachine
from pykraft.sim.machine.clock import Clock
from tests.machine.counters import Counters
from tests.machine.testing.bugs import draw


class Scripted:
    """Answers with what the script says, then never again."""

    def __init__(self, *answers: Any) -> None:
        self.machine: WatchedMachine[Any, Any] = WatchedMachine(Counters(), Reference(), 1)
        self.over = asyncio.Event()
        self._answers = list(answers)

    async def execute(self, command: object, *, timeout_ms: int) -> Any:
        assert timeout_ms > 0
        if not self._answers:
            self.over.set()
            await asyncio.get_running_loop().create_future()
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @asynccontextmanager
    async def read(self, *, timeout_ms: int) -> AsyncIterator[WatchedMachine[Any, Any]]:
        await self.execute(None, timeout_ms=timeout_ms)
        yield self.machine


@pytest.mark.parametrize("is_read", [False, True])
def test_each_answer_has_its_verdict(monkeypatch: pytest.MonkeyPatch, is_read: bool) -> None:
    monkeypatch.setattr(callers, "READ_PROBABILITY", float(is_read))
    monkeypatch.setattr(callers, "PAUSE_MS_MAX", 1)
    failures: list[Exception] = [CommandRejectedError("no"), OutcomeUnknownError("?"), NotAppliedError("out")]
    if is_read:
        failures = [QuorumUnavailableError("none")]
    history = CallHistory(Clock())

    async def main() -> None:
        scripted = Scripted(7, *failures)
        node = cast("Replicated[WatchedMachine[Any, Any]]", scripted)
        task = asyncio.create_task(MachineCaller(draw, RecordedNode(history, 1, node), Random(1)).run())
        await scripted.over.wait()
        task.cancel()

    asyncio.run(main())
    verdicts = [call.verdict for call in history.calls]
    if is_read:
        assert verdicts == [CallVerdict.APPLIED, CallVerdict.NOT_APPLIED, CallVerdict.OPEN]
        assert history.calls[0].position == 0
    else:
        expected = [CallVerdict.APPLIED, CallVerdict.APPLIED, CallVerdict.UNKNOWN, CallVerdict.NOT_APPLIED]
        assert verdicts == [*expected, CallVerdict.OPEN]
        assert [call.answer for call in history.calls[:2]] == ["b'7'", "rejected: no"]
        assert history.answered == 2

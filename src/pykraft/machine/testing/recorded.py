"""A replicated state machine as the callers of a simulated process use it: each call is noted with what it was told.

Invariant: a call is noted before it begins, and a call whose process ends stays open: it may be applied, or not.

Source: Jepsen's histories.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from pykraft.client.node import Node
from pykraft.errors import CommandRejectedError, OutcomeUnknownError, PykraftError
from pykraft.machine.replicated import TIMEOUT_MS, Replicated
from pykraft.machine.state_machine import StateMachine
from pykraft.machine.testing.judge import CallVerdict, MachineCall
from pykraft.machine.testing.reference import Numbered, Reference, WatchedMachine
from pykraft.sim.machine.clock import Clock


@dataclass(slots=True)
class CallHistory:
    """All calls of a world, in the order in which they began."""

    clock: Clock
    reference: Reference = field(default_factory=Reference)
    calls: list[MachineCall] = field(default_factory=list)
    answered: int = 0
    """Commands that were answered with a result or a rejection."""
    answered_end_offset: int = 0


class RecordedNode:
    """What `pykraft.machine.Replicated` offers to the callers of one process."""

    def __init__(self, history: CallHistory, node_id: int, replicated: Replicated[WatchedMachine[Any, Any]]) -> None:
        self._history = history
        self._node_id = node_id
        self._replicated = replicated

    @property
    def node(self) -> Node[bytes]:
        """As in `Replicated`."""
        return self._replicated.node

    @property
    def machine(self) -> StateMachine[Any, Any]:
        """The program's state machine on this node."""
        return self._replicated.machine.machine

    async def execute(self, command: Any, *, timeout_ms: int = TIMEOUT_MS) -> Any:  # noqa: ANN401 - the program's
        """As `Replicated.execute`."""
        history = self._history
        call = self._begin(repr(command), is_read=False)
        try:
            result = await self._replicated.execute(Numbered(call.number, command), timeout_ms=timeout_ms)
        except CommandRejectedError as error:
            self._answered(call, f"rejected: {error}")
            raise
        except OutcomeUnknownError:
            call.verdict = CallVerdict.UNKNOWN
            raise
        except PykraftError:
            call.verdict = CallVerdict.NOT_APPLIED
            raise
        else:
            self._answered(call, repr(self._replicated.machine.results.serialize(result)))
            return result
        finally:
            if call.verdict is not CallVerdict.OPEN:
                call.answered_us = history.clock.now_us

    @asynccontextmanager
    async def read(
        self, *, stale: bool = False, max_age_ms: int | None = None, timeout_ms: int = TIMEOUT_MS
    ) -> AsyncIterator[Any]:
        """As `Replicated.read`; what may be out of date is not noted."""
        if stale:
            async with self._replicated.read(stale=True, max_age_ms=max_age_ms, timeout_ms=timeout_ms) as watched:
                yield watched.machine
            return
        call = self._begin("", is_read=True)
        try:
            async with self._replicated.read(timeout_ms=timeout_ms) as watched:
                call.position, call.answer = watched.found()
                call.verdict = CallVerdict.APPLIED
                call.answered_us = self._history.clock.now_us
                yield watched.machine
        except PykraftError:
            if call.verdict is CallVerdict.OPEN:
                call.verdict = CallVerdict.NOT_APPLIED
                call.answered_us = self._history.clock.now_us
            raise

    def _answered(self, call: MachineCall, answer: str) -> None:
        history = self._history
        call.verdict, call.answer = CallVerdict.APPLIED, answer
        history.answered += 1
        applied = history.reference.by_number.get(call.number)
        if applied is not None:
            history.answered_end_offset = max(history.answered_end_offset, applied.offset + 1)

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

"""Writes the log time while this node leads and the state machine waits for time alone.

Commands bring the time with them. Where none come, the leader writes a record with nothing but the time: so often that
unused sessions end while any are open, and as soon as the log time has come that the state machine waits for.
Invariant: an idle log does not grow when no session is open and the state machine waits for nothing.

Source: ours (ADR 068, ADR 086).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

from pykraft.client.node import Node
from pykraft.errors import PykraftError
from pykraft.machine.applier import Applier
from pykraft.machine.records import TickRecord, encode_log_record

TICKS_OF_A_SESSION: Final = 4
"""While nothing else is written, the leader writes the time so often in a session's timeout."""
PAUSE_S_MIN: Final = 0.01
"""Time between two ticks at least, so that a node that cannot commit does not spin."""


class LogTicks:
    """The ticks of one node."""

    def __init__(self, node: Node[bytes], applier: Applier[Any, Any], session_timeout_ms: int) -> None:
        self._interval_s = session_timeout_ms / 1_000 / TICKS_OF_A_SESSION
        self._node = node
        self._applier = applier

    async def run(self) -> None:
        """Write ticks until cancelled."""
        while True:
            try:
                async with asyncio.timeout(self._wait_s()):
                    await self._applier.deadline_moved.wait()
                self._applier.deadline_moved.clear()
            except TimeoutError:
                if self._is_due():
                    await self._write()

    def _wait_s(self) -> float:
        deadline_ms = self._applier.deadline_ms
        if deadline_ms is None or not self._applier.clock.is_running:
            return self._interval_s
        return min(self._interval_s, max(PAUSE_S_MIN, (deadline_ms - self._applier.time_ms()) / 1_000))

    def _is_due(self) -> bool:
        if not self._applier.clock.is_running:
            return False
        deadline_ms = self._applier.deadline_ms
        is_past = deadline_ms is not None and self._applier.time_ms() >= deadline_ms
        return is_past or self._applier.replica.sessions_count > 0

    async def _write(self) -> None:
        with suppress(PykraftError):  # another node leads by now, or this one has ended
            committed = await self._node.propose([encode_log_record(TickRecord(self._applier.time_ms()))])
            await self._node.wait_applied(self._applier, committed.end_offset)

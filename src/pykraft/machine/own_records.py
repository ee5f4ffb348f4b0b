"""Records that a node writes of its own: the log time, and what compares replicas. An idle log grows by neither.

Invariant: the time is written so often that unused sessions end while any are open, and that a change of leader costs a
waiting state machine little of it. A CHECK of the leader and the DIGEST of each voter are written one at a time.

Source: ours (ADR 086, ADR 092, ADR 180).
"""

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from pykraft.client.node import Node
from pykraft.errors import NotRunningError, PykraftError
from pykraft.machine.applier import Applier
from pykraft.machine.forwarder import Forwarder
from pykraft.machine.records import CheckRecord, TickRecord, encode_log_record
from pykraft.machine.state_check import StateCheck

PAUSE_S: Final = 0.02
"""Before each record: a node that reads an old log meets many a CHECK, and tells about the last one only."""
RETRY_S: Final = 0.25
"""After this time a record is written that was due before and could not be."""


class StateCheckWriter:
    """The records of one node."""

    def __init__(self, node: Node[bytes], applier: Applier[Any, Any], forwarder: Forwarder, check: StateCheck) -> None:
        self._node = node
        self._applier = applier
        self._forwarder = forwarder
        self._check = check

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY_S if self._is_due() else None):
                    await self._check.moved.wait()
            self._check.moved.clear()
            await asyncio.sleep(PAUSE_S)
            with suppress(PykraftError):  # another try follows, or another node leads by now
                await self._write_digest()
                await self._ask()

    def _is_due(self) -> bool:
        return self._has_news() or (self._applier.clock.is_running and self._check.count >= self._check.every)

    def _has_news(self) -> bool:
        node_id = self._node.node_id
        is_voter = node_id is not None and node_id in voter_ids(self._node)
        return is_voter and self._check.found is not None and not self._check.is_told(int(node_id or 0))

    async def _write_digest(self) -> None:
        found = self._check.found
        if found is None or not self._has_news():
            return
        record = replace(found, node_id=int(self._node.node_id or 0), time_ms=self._applier.time_ms())
        data = encode_log_record(record)
        if self._forwarder.is_needed:
            await self._forwarder.forward_digest(data)
        else:
            await self._node.propose([data])

    async def _ask(self) -> None:
        if self._applier.clock.is_running and self._check.count >= self._check.every:
            committed = await self._node.propose([encode_log_record(CheckRecord(self._applier.time_ms()))])
            await self._node.wait_applied(self._applier, committed.end_offset)


def voter_ids(node: Node[bytes]) -> list[int]:
    """The ids of the voters that this node knows; none before its start and after its end."""
    try:
        return [int(voter.key.id) for voter in node.latest_voter_set.voters]
    except NotRunningError:
        return []


TICKS_OF_A_SESSION: Final = 4
"""While nothing else is written, the leader writes the time so often in a session's timeout."""
PAUSE_S_MIN: Final = 0.01
"""Time between two ticks at least, so that a node that cannot commit does not spin."""


class LogTicks:
    """The ticks of one node."""

    def __init__(self, node: Node[bytes], applier: Applier[Any, Any], session_timeout_ms: int) -> None:
        self._node = node
        self._applier = applier
        applier.silence_ms_max = session_timeout_ms // TICKS_OF_A_SESSION

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
        applier = self._applier
        if not (applier.clock.is_running and self._is_counted_on()):
            return applier.silence_ms_max / 1_000
        return max(PAUSE_S_MIN, (self._due_ms() - applier.time_ms()) / 1_000)

    def _is_due(self) -> bool:
        applier = self._applier
        return applier.clock.is_running and self._is_counted_on() and applier.time_ms() >= self._due_ms()

    def _is_counted_on(self) -> bool:
        """Whether anything waits for the log's time: without that an idle log does not grow."""
        return self._applier.deadline_ms is not None or self._applier.replica.sessions_count > 0

    def _due_ms(self) -> int:
        """The log time at which the next tick is due, if no other record comes."""
        next_ms = self._applier.replica.time_ms + self._applier.tick_interval_ms()
        return next_ms if self._applier.deadline_ms is None else min(next_ms, self._applier.deadline_ms)

    async def _write(self) -> None:
        with suppress(PykraftError):  # another node leads by now, or this one has ended
            committed = await self._node.propose([encode_log_record(TickRecord(self._applier.time_ms()))])
            await self._node.wait_applied(self._applier, committed.end_offset)

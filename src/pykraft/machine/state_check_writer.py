"""Writes what the comparison of replicas needs into the log: the leader's CHECK, and each voter's DIGEST.

Invariant: an idle log does not grow; a node has one of these records under way at a time.

Source: ours (ADR 092).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from pykraft.client.node import Node
from pykraft.errors import NotRunningError, PykraftError
from pykraft.machine.applier import Applier
from pykraft.machine.forwarder import Forwarder
from pykraft.machine.records import CheckRecord, encode_log_record
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
                await self._tell()
                await self._ask()

    def _is_due(self) -> bool:
        return self._has_news() or (self._applier.clock.is_running and self._check.count >= self._check.every)

    def _has_news(self) -> bool:
        node_id = self._node.node_id
        is_voter = node_id is not None and node_id in voter_ids(self._node)
        return is_voter and self._check.found is not None and not self._check.is_told(int(node_id or 0))

    async def _tell(self) -> None:
        """Write what this node found at the last CHECK."""
        found = self._check.found
        if found is None or not self._has_news():
            return
        record = replace(found, node_id=int(self._node.node_id or 0), time_ms=self._applier.time_ms())
        data = encode_log_record(record)
        if self._forwarder.is_needed:
            await self._forwarder.tell(data)
        else:
            await self._node.propose([data])

    async def _ask(self) -> None:
        """Write a CHECK, if this node leads and enough commands came since the last one."""
        if self._applier.clock.is_running and self._check.count >= self._check.every:
            committed = await self._node.propose([encode_log_record(CheckRecord(self._applier.time_ms()))])
            await self._node.wait_applied(self._applier, committed.end_offset)


def voter_ids(node: Node[bytes]) -> list[int]:
    """The ids of the voters that this node knows; none before its start and after its end."""
    try:
        return [int(voter.key.id) for voter in node.latest_voter_set.voters]
    except NotRunningError:
        return []

"""Wakes up callers that wait for a leader.

The watch listens to the host from the log end on, so it hears of leader changes and costs no reads. Invariant: the next
leader change, or the end of the node, wakes every waiter. Waiters then read the leader themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pykraft.client.thread import NodeLoops
from pykraft.host.delivery import CommittedBatch
from pykraft.host.host import Host
from pykraft.types import Epoch, NodeId


class LeaderWatch:
    """A listener of the host on the node's side, an event on the application's side."""

    def __init__(self, loops: NodeLoops) -> None:
        self._loops = loops
        self._news = asyncio.Event()

    def attach(self, host: Host) -> None:
        """On the node's side: start listening."""
        host.register(self, host.status.log_end_offset)

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """See `pykraft.host.delivery.HostListener`; ignores records."""

    def on_leader_change(self, epoch: Epoch, leader_id: NodeId | None) -> None:
        """See `pykraft.host.delivery.HostListener`."""
        del epoch, leader_id
        self._loops.to_application(self.tell)

    def tell(self) -> None:
        """On the application's side: wake all waiters."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def wait(self) -> None:
        """Wait for the next leader change, or the end of the node."""
        await self._news.wait()

"""Wakes up who waits for a leader.

It listens to the host from the log end on, so that it is told of leaders and costs no reads. Invariant: whoever waits
is woken by the next news, or by the end of the node; what the news is, he looks up himself. It refuses to know.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pykraft.client.thread import Place
from pykraft.host.delivery import CommittedBatch
from pykraft.host.host import Host
from pykraft.types import Epoch, NodeId


class LeaderWatch:
    """A listener of the host on the node's side, an event on the application's."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._news = asyncio.Event()

    def attach(self, host: Host) -> None:
        """On the node's side: begin."""
        host.register(self, host.log_end_offset)

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """See `pykraft.host.delivery.Listener`; records are of no interest."""

    def on_leader_change(self, epoch: Epoch, leader_id: NodeId | None) -> None:
        """See `pykraft.host.delivery.Listener`."""
        del epoch, leader_id
        self._place.to_application(self.tell)

    def tell(self) -> None:
        """On the application's side: there is news."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def wait(self) -> None:
        """Wait for the next news."""
        await self._news.wait()

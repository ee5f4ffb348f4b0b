"""The leader of an epoch, and an adapter for applications that think in claims and resignations.

Invariant of the adapter: claims and resignations alternate, and a resignation names the epoch of the claim that it
ends.

Source: Kafka's ``LeaderAndEpoch``; ``RaftClient.Listener.handleClaim`` and ``handleResign`` of 2020.
"""

from collections.abc import Awaitable
from dataclasses import dataclass
from inspect import isawaitable
from typing import Final, Generic, Protocol, TypeVar

from pykraft.client.reader import Reader
from pykraft.types import Epoch, NodeId

T = TypeVar("T")
OPTIONAL: Final = ("begin_shutdown", "handle_load_snapshot", "handle_load_bootstrap", "handle_save_snapshot")
"""Methods that a listener may have."""


@dataclass(frozen=True, slots=True)
class LeaderAndEpoch:
    """The leader of an epoch; None while it is unknown."""

    leader_id: NodeId | None
    epoch: Epoch

    def is_leader(self, node_id: int | None) -> bool:
        """True when this node leads; never for a node without an id."""
        return self.leader_id is not None and self.leader_id == node_id


class ClaimListener(Protocol[T]):
    """The application's listener for `ClaimAdapter`; each method may be ``async``.

    The optional methods of a `pykraft.client.Listener` are optional here, too.
    """

    def handle_commit(self, reader: Reader[T], /) -> Awaitable[None] | None: ...

    def handle_claim(self, epoch: Epoch, /) -> Awaitable[None] | None:
        """This node leads ``epoch``, and this listener has handled everything that was committed before."""
        ...

    def handle_resign(self, epoch: Epoch, /) -> Awaitable[None] | None:
        """This node no longer leads ``epoch``."""
        ...


class ClaimAdapter(Generic[T]):
    """A `pykraft.client.Listener` that passes everything on; of leader changes, only this node's own."""

    def __init__(self, listener: ClaimListener[T], node_id: int | None) -> None:
        """``node_id`` is the id of the node where the adapter is registered."""
        self._listener = listener
        self._node_id = node_id
        self._claimed: Epoch | None = None
        for name in OPTIONAL:
            if hasattr(listener, name):
                setattr(self, name, getattr(listener, name))

    def handle_commit(self, reader: Reader[T], /) -> Awaitable[None] | None:
        return self._listener.handle_commit(reader)

    async def handle_leader_change(self, leader_and_epoch: LeaderAndEpoch, /) -> None:
        if self._claimed is not None:
            resigned, self._claimed = self._claimed, None
            await _done(self._listener.handle_resign(resigned))
        if leader_and_epoch.is_leader(self._node_id):
            self._claimed = leader_and_epoch.epoch
            await _done(self._listener.handle_claim(leader_and_epoch.epoch))


async def _done(result: Awaitable[None] | None) -> None:
    if isawaitable(result):
        await result

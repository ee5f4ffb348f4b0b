"""A second listener of one process, plain and often slow: it loads no snapshots and may fall behind the log start.

It only reports what it was given and what it missed. Now and then it holds its registration for a while, as a busy
application does; meanwhile logs are cleaned.

Source: Kafka's ``RaftClient.register``, of which there may be several listeners.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from pykraft.host.delivery import CommittedBatch, Registration
from pykraft.sim.facts.facts import Facts
from pykraft.sim.invariants.watch import Watch
from pykraft.sim.machine.node import SimulatedNode
from pykraft.types import Epoch, NodeId, Offset

HOLD_PROBABILITY = 0.1
"""Probability that the listener is busy for some time after a delivery."""
HOLD_US_MAX = (1_000, 100_000, 1_500_000)


class Bystander:
    """The plain listener of one process; begins with `listen`."""

    def __init__(self, facts: Facts, watch: Watch, node: SimulatedNode, rng: Random) -> None:
        self.end_offset = 0
        """End offset of what it was given or has missed."""
        self._facts = facts
        self._watch = watch
        self._node = node
        self._rng = rng
        self._registration: Registration | None = None

    def listen(self) -> None:
        """Register from the log start on."""
        host = self._node.host
        assert host is not None
        self._watch.listens(self._node, host.status.log_start_offset)
        self._registration = host.register(self, is_held=True, on_skipped=self._skipped)
        self._registration.release()

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """See `pykraft.host.delivery.HostListener`."""
        self._watch.overheard(self._node, batches)
        self.end_offset = batches[-1].end_offset
        process, registration = self._node.process, self._registration
        if self._rng.random() < HOLD_PROBABILITY and process is not None and registration is not None:
            registration.hold()
            process.later(self._rng.randrange(self._rng.choice(HOLD_US_MAX)), registration.release)

    def on_leader_change(self, epoch: Epoch, leader_id: NodeId | None) -> None:
        """See `pykraft.host.delivery.HostListener`: ignored."""

    def _skipped(self, next_offset: Offset, start_offset: Offset) -> None:
        self._watch.skipped(self._node, next_offset, start_offset)
        self._watch.happened("listener fell behind", self._node)
        self.end_offset = start_offset

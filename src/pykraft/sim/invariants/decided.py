"""Every proposal gets its outcome, as long as the process lives that took it.

A leader without a majority resigns, and then knows no more than its client: that is an outcome, too.

Source: ValuesEventuallyAcked of Vanlightly's specification of KRaft; `pykraft.host.producers` (exactly one outcome).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykraft.sim.calm import transfer_us
from pykraft.sim.invariants.invariant import Invariant

if TYPE_CHECKING:
    from pykraft.sim.history import Operation
    from pykraft.sim.world import World

TIMEOUTS = 6
"""Within so many fetch timeouts: a leader is given up after three, and its disk may be slow."""


class EveryProposalIsDecided(Invariant):
    """At the end no client of a living process waits longer than any leader can be without a majority."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._open: dict[int, Operation] = {}

    def proposed(self, operation: Operation) -> None:
        """Somebody waits."""
        self._open[operation.number] = operation

    def decided(self, operation: Operation) -> None:
        """Nobody waits for this one. Errors: ViolationError for a second answer."""
        if self._open.pop(operation.number, None) is None:
            raise self.violated(f"operation {operation.number} of node {operation.node_id} is answered twice")

    def ended(self) -> None:
        """Look for who waits too long."""
        scenario = self.world.scenario
        limit_us = TIMEOUTS * scenario.quorum.fetch_timeout_ms * 1_000 + transfer_us(scenario)
        for operation in self._open.values():
            if operation.is_alive() and self.world.clock.now_us - operation.invoked_us > limit_us:
                asked, now = operation.invoked_us / 1_000, self.world.clock.now_us / 1_000
                seen = f"operation {operation.number}, proposed at node {operation.node_id} at {asked:.3f} ms"
                raise self.violated(f"{seen}, has no answer at {now:.3f} ms, and the process that took it still runs")

"""What an application does in a world: proposes numbered values at every leader and remembers the outcomes.

A value is the number of its proposal. Acknowledged values must be found where they were acknowledged; the
others may be there or not, but never twice.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from pykraft.host.producers import Committed, Outcome

if TYPE_CHECKING:
    from pykraft.host.host import Host
    from pykraft.sim.world import World


class Workload:
    """Proposes a few values at every node that leads, again and again."""

    def __init__(self, world: World, rng: Random) -> None:
        self.acknowledged: dict[int, tuple[bytes, ...]] = {}
        self.acknowledged_end_offset = 0
        self.proposed = 0
        self._world = world
        self._rng = rng
        self._work = world.scenario.work

    def begin(self) -> None:
        """Plan the first turn."""
        self._world.clock.after(self._work.period_us, self._turn)

    def _turn(self) -> None:
        for node in self._world.nodes.values():
            if node.host is not None and node.host.role == "leader":
                self._world.touch(node)
                self._propose(node.host)
        period_us = self._work.period_us
        self._world.clock.after(self._rng.randint(period_us // 2, period_us * 2), self._turn)

    def _propose(self, host: Host) -> None:
        values = tuple(self._next_value() for _ in range(self._rng.randint(1, self._work.values_max)))

        def decided(outcome: Outcome) -> None:
            if isinstance(outcome, Committed):
                self.acknowledged[outcome.base_offset] = values
                self.acknowledged_end_offset = max(self.acknowledged_end_offset, outcome.base_offset + len(values))

        host.propose(values, epoch=host.epoch, now=self._world.clock.instant, on_outcome=decided)

    def _next_value(self) -> bytes:
        self.proposed += 1
        number = b"%012d" % self.proposed
        return number + bytes(self._rng.randrange(0, self._work.value_size_bytes_max))

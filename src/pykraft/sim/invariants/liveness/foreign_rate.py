"""Somebody who answers at once and brings nothing is not asked again and again without a pause.

Whether it refuses, says nothing new, or breaks the protocol: a replica waits for its retry back-off before it asks
once more. Else one false leader could keep it, its disk and its network busy.

Source: ADR 028; Kafka's ``RequestManager`` (retry back-off).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from pykraft.sim.facts.claims import STRANGER_ID
from pykraft.sim.invariants.invariant import Invariant

if TYPE_CHECKING:
    from pykraft.sim.machine.node import Node
    from pykraft.sim.machine.spoken import Spoken
    from pykraft.sim.run.world import World

SECOND_US = 1_000_000
REQUESTS_MAX = 120
"""In a second; a retry back-off is 20 ms, and some are asked without one when an epoch or a leader is new."""


class StrangersAreAskedSeldom(Invariant):
    """No process sends a stranger more than 120 requests of the quorum in a second."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._asked: dict[int, deque[int]] = {}

    def before_send(self, node: Node, spoken: Spoken) -> None:
        """Count what was asked in the last second."""
        if spoken.target_id != STRANGER_ID:
            return
        now_us = self.world.clock.now_us
        asked = self._asked.setdefault(int(node.node_id), deque())
        asked.append(now_us)
        while asked[0] <= now_us - SECOND_US:
            asked.popleft()
        if len(asked) > REQUESTS_MAX:
            raise self.violated(f"node {node.node_id} has asked a stranger {len(asked)} times within a second")

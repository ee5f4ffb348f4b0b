"""An operator who asks for another voter set gets an answer, as long as the leader lives that was asked.

A change that is not made in time is refused, and one that is made is told. Who hears nothing asks again, or waits.

Source: KIP-853 §AddRaftVoter (``TimeoutMs``); Kafka ``AddVoterHandler.highWatermarkUpdated``.
"""

from __future__ import annotations

from typing import Final

from pykraft.sim.facts.facts import Facts
from pykraft.sim.facts.view import View
from pykraft.sim.facts.voter_requests import Asked
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import Node

REQUEST_TIMEOUTS: Final = 5
"""A leader gives a change one of them; the rest is for slow clocks and disks."""
US_PER_MS: Final = 1_000


class OperatorsAreAnswered(Invariant):
    """Whoever asked a leader for another voter set has its answer within some request timeouts."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._asked: dict[Asked, int] = {}

    def asked(self, asked: Asked) -> None:
        """It is on its way."""
        self._asked[asked] = self.facts.clock.now_us

    def answered(self, asked: Asked) -> None:
        """It is answered."""
        self._asked.pop(asked, None)

    def after_event(self, node: Node, now: View) -> None:
        """Look for one that waits too long for this node."""
        del now
        if not self._asked:
            return
        bound_us = REQUEST_TIMEOUTS * node.config.raft.request_timeout_ms * US_PER_MS
        for asked, since_us in list(self._asked.items()):
            if not asked.process.is_running:
                del self._asked[asked]
                continue
            waited_us = self.facts.clock.now_us - max(since_us, node.disk.io_errors.stalled_until_us)
            is_its = asked.process is node.process
            if is_its and waited_us > bound_us and not node.was_paused_since(since_us):
                raise self.violated(f"node {node.node_id} has not answered {asked.message} in {waited_us} us")

"""An operator's request to change the voters gets an answer as long as the leader that received it runs.

A change that is not committed in time is rejected, and one that is committed is confirmed. An operator without an
answer would ask again, or wait.

Source: KIP-853 §AddRaftVoter (``TimeoutMs``); Kafka ``AddVoterHandler.highWatermarkUpdated``.
"""

from __future__ import annotations

from typing import Final

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, View, VoterRequest

REQUEST_TIMEOUTS: Final = 5
"""A leader allows a change one of them; the rest is for slow clocks and disks."""
US_PER_MS: Final = 1_000


class OperatorsAreAnswered(Invariant):
    """A request to a leader to change the voters is answered within some request timeouts."""

    def _begin(self) -> None:
        self._asked: dict[VoterRequest, int] = {}

    def asked(self, asked: VoterRequest) -> None:
        """The request is on its way."""
        self._asked[asked] = self.facts.clock.now_us

    def answered(self, asked: VoterRequest) -> None:
        """The request is answered."""
        self._asked.pop(asked, None)

    def after_event(self, node: SimulatedNode, _now: View) -> None:
        """Look for a request to this node that has waited too long."""
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

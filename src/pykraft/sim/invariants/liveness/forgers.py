"""A stranger who sends frames in voters' names costs a quorum at most half of its work, and hardly ever its leader.

Compared are the values that clients were told are committed: how many a second before a stranger began, and how many
while it sends up to 50 frames a second to each voter. Only worlds in which nothing else goes wrong are judged: others
have leaders that resign and links that are slow long after their fault.

Source: ours; Raft dissertation §4.2.3 (disruptive servers must not take the leadership away).
"""

from __future__ import annotations

from typing import Final

from pykraft.sim.facts.history import OperationOutcome
from pykraft.sim.invariants.invariant import Invariant, Operation, SimulatedNode, View
from pykraft.sim.scenario.scenario import FORGED, KINDS

LOOK_US: Final = 25_000
QUIET_US_MIN: Final = 1_500_000
FORGED_US_MIN: Final = 2_000_000
SHARE: Final = 0.5
LEADERS_PERIOD_US: Final = 60_000_000
"""In so long, one more leader may be elected."""


class QuorumOutlastsForgers(Invariant):
    """While only a stranger forges frames, half as much is acknowledged as before, and leaders stay a minute."""

    def _begin(self) -> None:
        self._acknowledged = 0
        self._is_forging = False
        self._looked_us = 0
        self._is_judge = not any(self.facts.scenario.faults.get(kind) for kind in KINDS if kind not in FORGED)
        self._quiet_us = self._forged_us = self._all_forged_us = 0
        self._quiet = self._forged = 0
        self._leaders = 0

    def decided(self, operation: Operation) -> None:
        """Count what is acknowledged."""
        if operation.answer is OperationOutcome.COMMITTED:
            self._acknowledged += len(operation.values)

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Count the leaders that are elected while a stranger forges frames."""
        if self._is_judge and self._is_forging and now.leads and not was.leads:
            self._leaders += 1
            if self._leaders > 1 + self._all_forged_us // LEADERS_PERIOD_US:
                seen = f"node {node.node_id} leads epoch {now.epoch}, the leader number {self._leaders} within"
                raise self.violated(f"{seen} {self._all_forged_us} us in which only a stranger did anything")

    def after_event(self, _node: SimulatedNode, _now: View) -> None:
        """Add what was acknowledged since the last look to the quiet time or to the other."""
        now_us, is_forging = self.facts.clock.now_us, self.facts.claims.is_forging
        if now_us < self._looked_us + LOOK_US and is_forging == self._is_forging:
            return
        passed_us, self._looked_us = now_us - self._looked_us, now_us
        acknowledged, self._acknowledged = self._acknowledged, 0
        if self._is_forging:
            self._forged_us += passed_us
            self._all_forged_us += passed_us
            self._forged += acknowledged
        elif not self._all_forged_us and (self._quiet or acknowledged):  # from the first acknowledgement on
            self._quiet_us += passed_us
            self._quiet += acknowledged
        if self._is_judge and self._is_forging and not is_forging:
            self._compare()
            self._forged_us = self._forged = 0
        self._is_forging = is_forging

    def _compare(self) -> None:
        if self._quiet_us < QUIET_US_MIN or self._forged_us < FORGED_US_MIN:
            return
        if self._forged * self._quiet_us < SHARE * self._quiet * self._forged_us:
            seen = f"{self._forged} values were acknowledged in {self._forged_us} us with a stranger"
            raise self.violated(f"{seen}, {self._quiet} in {self._quiet_us} us before")

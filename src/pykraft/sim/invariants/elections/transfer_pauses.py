"""A leader does not pause for transfers that cannot succeed.

It accepts no proposals while it transfers its leadership. So it rejects a target that has been silent for long, and
after a failed transfer it accepts proposals for nine times as long as that one took: repeated requests take at most a
tenth of its time.

Source: ours (ADR 030); Raft dissertation §3.10 (a transfer is given up after an election timeout).
"""

from __future__ import annotations

from typing import Final

from pykraft.core.state import Leader
from pykraft.sim.invariants.invariant import Invariant, Report, SimulatedNode
from pykraft.types import NodeId, ReportKind

REST_FACTOR: Final = 9


class TransferPausesAreShort(Invariant):
    """No leader begins a transfer to a voter that was silent for a fetch timeout, or too soon after one that failed."""

    def _begin(self) -> None:
        self._begun_ms: dict[int, int] = {}
        self._rests_ms: dict[int, int] = {}

    def started(self, node: SimulatedNode) -> None:
        """A new process knows of no transfer."""
        self._begun_ms.pop(int(node.node_id), None)
        self._rests_ms.pop(int(node.node_id), None)

    def reported(self, node: SimulatedNode, report: Report) -> None:
        """A transfer begins, or has failed."""
        node_id, now_ms = int(node.node_id), node.clock.instant.mono_ms
        if report.kind is ReportKind.TRANSFER_BEGUN:
            self._look(node, report.values[0], now_ms)
            self._begun_ms[node_id] = now_ms
        elif report.kind is ReportKind.TRANSFER_FAILED and node_id in self._begun_ms:
            self._rests_ms[node_id] = now_ms + REST_FACTOR * (now_ms - self._begun_ms.pop(node_id))

    def _look(self, node: SimulatedNode, target_id: int, now_ms: int) -> None:
        who = f"leader {node.node_id} begins a transfer to node {target_id}"
        rest_ms = self._rests_ms.get(int(node.node_id), now_ms) - now_ms
        if rest_ms > 0:
            raise self.violated(f"{who} {rest_ms} ms too soon after one that failed")
        leader = node.host.raft.state if node.host is not None and node.host.raft is not None else None
        if not isinstance(leader, Leader):
            return
        # A request of a node that is down may arrive late, so only what the leader has heard counts.
        fetched_ms = leader.progress.voters[NodeId(target_id)].fetched_mono_ms
        silent_ms = now_ms - max(leader.begun_ms, leader.begun_ms if fetched_ms is None else fetched_ms)
        if silent_ms >= node.config.raft.fetch_timeout_ms:
            raise self.violated(f"{who}, which has been silent for {silent_ms} ms")

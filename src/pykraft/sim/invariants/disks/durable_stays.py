"""What a node has acknowledged as durable is still there when it starts again.

An acknowledgment counts for the high watermark even if its sender dies a moment later. So recovery may only remove what
was never acknowledged, as a torn tail; a damaged record that was acknowledged is not a torn tail.

Source: KIP-595 §Fetch; Raft paper §5.1 (log[] is persistent); the line between torn and damaged is ours.
"""

from __future__ import annotations

from dataclasses import replace

from pykraft.core.effects import TruncateTo
from pykraft.sim.invariants.invariant import Invariant, Job, SimulatedNode, Spoken
from pykraft.sim.machine.spoken import LogEnd


class AcknowledgedSurvivesRestart(Invariant):
    """A recovered log is at least as long as its node's last Fetch said, or as its last truncation left it.

    Exceptions: the node says that its log is damaged, or a snapshot of a later epoch replaced the log.
    """

    def _begin(self) -> None:
        self._told: dict[int, LogEnd] = {}

    def lost(self, node: SimulatedNode) -> None:
        """The node cannot know that its disk lied."""
        self._told.pop(int(node.node_id), None)

    def wiped(self, node: SimulatedNode) -> None:
        """The new disk has acknowledged nothing."""
        self._told.pop(int(node.node_id), None)

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        """Remember the acknowledgment."""
        if spoken.fetched is not None:
            self._told[int(node.node_id)] = spoken.fetched

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        """A truncation lowers what was acknowledged."""
        told = self._told.get(int(node.node_id))
        if isinstance(job, TruncateTo) and told is not None:
            self._told[int(node.node_id)] = replace(told, offset=min(told.offset, job.end_offset))

    def started(self, node: SimulatedNode) -> None:
        """Compare with what recovery found."""
        told, status = self._told.get(int(node.node_id)), node.status
        if told is None or status is None or node.is_damaged or self.facts.ledger(node).last_epoch > told.epoch:
            return
        if status.log_end_offset < told.offset:
            seen = f"node {node.node_id} had told that it holds {told.offset}"
            raise self.violated(f"{seen}, it begins at {status.log_end_offset}")

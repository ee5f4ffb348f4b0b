"""What a node has told to be durable is still there when it starts again.

An acknowledgment counts for the high watermark even if its sender dies a moment later. So recovery may only take away
what was never acknowledged: a torn tail; a damaged record that was is no tail.

Source: KIP-595 §Fetch; Raft paper §5.1 (log[] is persistent); the line between torn and damaged is ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykraft.log.lane import Truncate
from pykraft.sim.invariants.invariant import Invariant

if TYPE_CHECKING:
    from pykraft.log.lane import Job
    from pykraft.sim.node import Node
    from pykraft.sim.spoken import Spoken
    from pykraft.sim.world import World


class AcknowledgedSurvivesRestart(Invariant):
    """A recovered log is at least as long as its node's last Fetch said, or its last truncation left.

    Unless the node says that it is damaged.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._told: dict[int, int] = {}

    def lost(self, node: Node) -> None:
        """What its disk had lied about it cannot know."""
        self._told.pop(int(node.node_id), None)

    def wiped(self, node: Node) -> None:
        """It had told nothing with this disk."""
        self._told.pop(int(node.node_id), None)

    def before_send(self, node: Node, spoken: Spoken) -> None:
        """Remember what is acknowledged."""
        if spoken.fetched is not None:
            self._told[int(node.node_id)] = spoken.fetched.offset

    def submitted(self, node: Node, job: Job) -> None:
        """A truncation takes back what was told."""
        if isinstance(job, Truncate):
            node_id = int(node.node_id)
            self._told[node_id] = min(self._told.get(node_id, 0), job.offset)

    def started(self, node: Node) -> None:
        """Compare what recovery found."""
        told, host = self._told.get(int(node.node_id), 0), node.host
        if host is not None and not node.is_damaged and host.log_end_offset < told:
            raise self.violated(
                f"node {node.node_id} had told that it holds {told}, it begins at {host.log_end_offset}"
            )

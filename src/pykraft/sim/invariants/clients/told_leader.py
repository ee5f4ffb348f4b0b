"""A listener hears that its own node leads only when it has caught up, and hears of epochs in rising order.

An application that leads decides by its state, so before it is told it must have everything that was committed before,
and the first record of its own epoch.

Source: Kafka's ``RaftClient.Listener.handleLeaderChange`` and ``KafkaRaftClient.ListenerContext``; KIP-595.
"""

from __future__ import annotations

from collections.abc import Sequence

from pykraft.sim.invariants.invariant import CommittedBatch, Invariant, OffsetAndEpoch, SimulatedNode


class LeaderIsToldInTime(Invariant):
    """A listener that is told that its node leads an epoch has a record of that epoch; and told epochs never fall."""

    def _begin(self) -> None:
        self._given_epoch: dict[int, int] = {}
        self._told: dict[int, tuple[int, int | None]] = {}

    def started(self, node: SimulatedNode) -> None:
        """A new process has new listeners."""
        self._given_epoch[int(node.node_id)] = 0
        self._told[int(node.node_id)] = (0, None)

    def delivered(self, node: SimulatedNode, batches: Sequence[CommittedBatch]) -> None:
        """Remember how far the listener is."""
        self._given_epoch[int(node.node_id)] = batches[-1].epoch

    def loaded(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch) -> None:
        """A snapshot counts for the records before its end."""
        self._given_epoch[int(node.node_id)] = snapshot_id.epoch

    def told_leader(self, node: SimulatedNode, epoch: int, leader_id: int | None) -> None:
        """Compare the news with what the listener got, and with what it was told before."""
        node_id = int(node.node_id)
        given = self._given_epoch.get(node_id, 0)
        if leader_id == node_id and given != epoch:
            seen = f"node {node_id} is told that it leads epoch {epoch}"
            raise self.violated(f"{seen}, and was given records up to epoch {given} only")
        before, leader_before = self._told.get(node_id, (0, None))
        is_same = leader_before in (None, leader_id)
        # Whoever only heard of a leader that is none follows the real one as soon as that answers.
        claims = self.facts.claims
        is_same |= epoch in claims.led or bool({(epoch, leader_before), (epoch, leader_id)} & claims.misnamed)
        if epoch < before or (epoch == before and not is_same):
            raise self.violated(
                f"node {node_id} is told of epoch {epoch} after epoch {before} of leader {leader_before}"
            )
        self._told[node_id] = (epoch, leader_id)

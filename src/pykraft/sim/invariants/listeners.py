"""Rules of what listeners of a node are given."""

from collections.abc import Sequence
from typing import Final

from pykraft.sim.invariants.invariant import CommittedBatch, Invariant, OffsetAndEpoch, SimulatedNode, View
from pykraft.types import Epoch, NodeId


class DeliveredIsCommitted(Invariant):
    """No listener gets anything at or above the highest high watermark that a leader ever had.

    A record is committed when a leader has counted it on a majority: it lies below the leader's high watermark at
    some time.

    Source: Raft paper §5.3 (a committed entry is applied); Kafka's ``KafkaRaftClient.updateListenersProgress``.
    """

    def _begin(self) -> None:
        self._given: dict[int, int] = {}

    def delivered(self, node: SimulatedNode, batches: Sequence[CommittedBatch]) -> None:
        self._given[int(node.node_id)] = batches[-1].end_offset

    def loaded(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch) -> None:
        self._given[int(node.node_id)] = snapshot_id.offset

    def after_event(self, node: SimulatedNode, _now: View) -> None:
        given = self._given.pop(int(node.node_id), 0)
        committed = self.facts.committed.end_offset
        if given > committed:
            raise self.violated(f"node {node.node_id} is given what is below {given}, committed is {committed}")


class DeliveredOnceInOrder(Invariant):
    """Each batch that a listener gets begins where the former one ended; the first batch of a process begins at 0.

    A snapshot replaces the records before its end, and must contain some that the listener did not get yet.

    Source: Kafka's ``RaftClient.Listener`` and its ``handleLoadSnapshot`` (KIP-630); ``RaftEventSimulationTest``
    (the counter of a listener grows in steps of 1).
    """

    def _begin(self) -> None:
        self._next: dict[int, int] = {}

    def started(self, node: SimulatedNode) -> None:
        self._next[int(node.node_id)] = 0

    def loaded(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch) -> None:
        node_id = int(node.node_id)
        expected = self._next.get(node_id, 0)
        if snapshot_id.offset <= expected:
            raise self.violated(f"node {node_id} is given a snapshot up to {snapshot_id.offset}, {expected} is next")
        self._next[node_id] = snapshot_id.offset

    def delivered(self, node: SimulatedNode, batches: Sequence[CommittedBatch]) -> None:
        node_id = int(node.node_id)
        for batch in batches:
            expected = self._next.get(node_id, 0)
            if batch.base_offset != expected:
                raise self.violated(f"node {node_id} is given offset {batch.base_offset}, {expected} is next")
            self._next[node_id] = batch.end_offset


FOLLOWER: Final = "follower"


class LateListenersHearWhoLeads(Invariant):
    """At the end of the world a new listener of each follower is told its leader while it is registered.

    An application may register another listener at any time. News of the leader came before that, so without this
    it would hear of none until the next election.

    Source: Kafka's ``RaftClient.register``, whose ``ListenerContext`` is told the leader and epoch of the moment.
    """

    def ended(self) -> None:
        for node in self.facts.nodes.values():
            host = node.host
            if host is None or host.status.role != FOLLOWER:
                continue
            newcomer, status = _Newcomer(), host.status
            host.register(newcomer, status.high_watermark or status.log_start_offset)
            if newcomer.told != (status.epoch, status.leader_id):
                seen = f"a new listener of node {node.node_id} is told {newcomer.told}"
                raise self.violated(f"{seen}, and node {status.leader_id} leads epoch {status.epoch}")


class _Newcomer:
    """See `pykraft.host.delivery.HostListener`: remembers what it was told of the leader."""

    def __init__(self) -> None:
        self.told: tuple[int, int | None] | None = None

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """See `HostListener`: ignored."""

    def on_leader_change(self, epoch: Epoch, leader_id: NodeId | None) -> None:
        self.told = (int(epoch), leader_id)


class PlainListenerMissesOnlyTheCleaned(Invariant):
    """Deliveries to a plain listener continue where the last one ended, or at the log start; it is told of each gap.

    It begins at the log start. When the log is cleaned beyond its position, it continues at the new log start and
    not later, so it gets everything that the log still holds.

    Source: ours; KIP-630 (what is below the log start is in a snapshot only).
    """

    def _begin(self) -> None:
        self._next: dict[int, int] = {}

    def listens(self, node: SimulatedNode, start_offset: int) -> None:
        self._next[int(node.node_id)] = start_offset

    def overheard(self, node: SimulatedNode, batches: Sequence[CommittedBatch]) -> None:
        for batch in batches:
            expected = self._next[int(node.node_id)]
            if batch.base_offset != expected:
                raise self.violated(f"node {node.node_id} gives offset {batch.base_offset}, {expected} is next")
            self._next[int(node.node_id)] = batch.end_offset

    def skipped(self, node: SimulatedNode, next_offset: int, start_offset: int) -> None:
        expected = self._next[int(node.node_id)]
        log_start_offset = node.status.log_start_offset if node.status is not None else start_offset
        if next_offset != expected or not expected < start_offset <= log_start_offset:
            seen = f"node {node.node_id} tells of a gap from {next_offset} to {start_offset}"
            raise self.violated(f"{seen}; {expected} is next, and the log begins at {log_start_offset}")
        self._next[int(node.node_id)] = start_offset


class LeaderIsToldInTime(Invariant):
    """A listener that is told that its node leads an epoch has a record of that epoch; and told epochs never fall.

    An application that leads decides by its state, so before it is told it must have everything that was committed
    before, and the first record of its own epoch.

    Source: Kafka's ``RaftClient.Listener.handleLeaderChange`` and ``KafkaRaftClient.ListenerContext``; KIP-595.
    """

    def _begin(self) -> None:
        self._given_epoch: dict[int, int] = {}
        self._told: dict[int, tuple[int, int | None]] = {}

    def started(self, node: SimulatedNode) -> None:
        self._given_epoch[int(node.node_id)] = 0
        self._told[int(node.node_id)] = (0, None)

    def delivered(self, node: SimulatedNode, batches: Sequence[CommittedBatch]) -> None:
        self._given_epoch[int(node.node_id)] = batches[-1].epoch

    def loaded(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch) -> None:
        self._given_epoch[int(node.node_id)] = snapshot_id.epoch

    def leader_announced(self, node: SimulatedNode, epoch: int, leader_id: int | None) -> None:
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

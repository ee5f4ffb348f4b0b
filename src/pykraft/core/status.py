"""The status of a replica: one immutable value that a reader gets whole.

The core makes a new status at the end of each step and publishes it with one assignment. The host, the metrics, the
application's thread and the simulator read this value, so epoch and leader, say, always belong to the same step.
Invariant: a status never changes. It shows the replica's memory: the step's writes may not be durable yet.

A leader's progress of each voter is not in it; the host's thread may read that from `Raft.state` between two steps.

Source: etcd ``raft.BasicStatus``, as ``Node.Status`` returns it; Kafka's ``QuorumState`` and ``LeaderAndEpoch``.
"""

from typing import Final, NamedTuple

from pykraft.core.quarantine import Quarantine
from pykraft.core.replica import Replica
from pykraft.core.state import Follower, Leader
from pykraft.types import EPOCH_ZERO, NO_LISTENERS, Epoch, Listeners, NodeId, Offset, ReplicaKey, VoterSet

LEADER: Final = "leader"
RESIGNED: Final = "resigned"
NO_VOTERS: Final = VoterSet()


class Status(NamedTuple):
    """What a replica knew when its last step ended; the defaults are those of an empty one before its first."""

    # A named tuple, because one is made in every step: a frozen dataclass takes five times as long.
    role: str = "unattached"
    """Name of the state as in Kafka's current-state metric."""
    epoch: Epoch = EPOCH_ZERO
    """Epoch of the state; it may not be durable yet."""
    leader_id: NodeId | None = None
    """Leader of the epoch if known; a leader that resigned still names itself."""
    leader_listeners: Listeners = NO_LISTENERS
    """Endpoints of the leader; empty when unknown."""
    voted: ReplicaKey | None = None
    """The candidate that this replica voted for in this epoch; None for a leader or resigned leader."""
    high_watermark: Offset | None = None
    """Exclusive end of the committed records; None while unknown."""
    log_start_offset: Offset = Offset(0)
    """First offset that the log can hold."""
    log_end_offset: Offset = Offset(0)
    """End of the log (exclusive), including records that are still being written."""
    committed_end_offset: Offset = Offset(0)
    """Exclusive end of what this replica ever knew to be committed, whatever its state is now."""
    voters: VoterSet = VoterSet()
    """The voter set in force."""
    kraft_version: int = 0
    """The level of the feature ``kraft.version`` in force."""
    quarantine: Quarantine | None = None
    """Set while this replica has not fetched again a damaged part of its log."""
    told_voters: VoterSet = NO_VOTERS
    """At kraft.version 0, on a leader: the static voters, each with the endpoints that it told of."""
    is_proven: bool = True
    """False while the directory may have been emptied, so that this voter neither votes nor counts."""

    @property
    def leads(self) -> bool:
        """True for a leader; false for one that resigned."""
        return self.role == LEADER

    @property
    def serving_leader(self) -> tuple[NodeId, Listeners] | None:
        """The current leader and its known endpoints; None when unknown, or when this replica resigned."""
        if self.leader_id is None or self.role == RESIGNED:
            return None
        return self.leader_id, self.leader_listeners


def status_of(replica: Replica) -> Status:
    log, state = replica.log, replica.state
    # The two states of a quorum at work, without a call for each property of the replica.
    if isinstance(state, Follower):
        listeners, voted, high_watermark, told = state.leader_listeners, state.voted, state.high_watermark, NO_VOTERS
        leader_id: NodeId | None = state.leader_id
    elif isinstance(state, Leader):
        listeners, voted, high_watermark = replica.local.listeners, None, state.high_watermark
        leader_id, told = state.leader_id, state.volatile_voters
    else:
        listeners, voted, high_watermark = replica.leader_listeners, replica.voted, replica.high_watermark
        leader_id, told = replica.leader_id, NO_VOTERS
    return Status(
        replica.role,
        state.epoch,
        leader_id,
        listeners,
        voted,
        high_watermark,
        log.start_offset,
        log.end_offset,
        log.committed_end_offset,
        replica.voters,
        replica.kraft_version,
        log.quarantine,
        told,
        replica.survey is None,
    )

"""What request handlers share: fencing, and the ``after`` of the reply.

Source: Kafka ``KafkaRaftClient.validateVoterOnlyRequest`` and ``validateLeaderOnlyRequest``.
"""

from pykraft.core.effects import Reply
from pykraft.core.events import RequestReceived
from pykraft.core.messages import BeginQuorumEpochResponse, EndQuorumEpochResponse, Response, UpdateVoterResponse
from pykraft.core.outbox import Relies
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.errors import ErrorCode
from pykraft.types import EPOCH_MAX, NO_IO, Epoch, NodeId, ReplicaKey


def reply(replica: Replica, request_id: int, message: Response, relies: Relies = Relies.ELECTION) -> None:
    """Answer a request once what the answer relies on is durable."""
    # The outbox replaces NO_IO by the job that makes that durable.
    replica.outbox.send(Reply(after=NO_IO, request_id=request_id, message=message), relies)


def reply_with_leader(
    replica: Replica,
    event: RequestReceived,
    kind: type[BeginQuorumEpochResponse | EndQuorumEpochResponse | UpdateVoterResponse],
    error: ErrorCode,
) -> None:
    listeners = replica.reply_listeners(event.listener)
    response = kind(error=error, epoch=replica.epoch, leader_id=replica.leader_id, listeners=listeners)
    reply(replica, event.request_id, response)


def voter_only_error(replica: Replica, sender_id: NodeId, epoch: Epoch) -> ErrorCode:
    """FENCED_LEADER_EPOCH for an older epoch, INVALID_REQUEST for an impossible id or epoch, else NONE."""
    if epoch < replica.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if sender_id < 0 or epoch > EPOCH_MAX:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def leader_only_error(replica: Replica, epoch: Epoch) -> ErrorCode:
    """The error for a request that only the leader of ``epoch`` serves; NONE when this replica is that leader."""
    state = replica.state
    if epoch < state.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > state.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if not isinstance(state, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if replica.is_shutting_down:
        return ErrorCode.BROKER_NOT_AVAILABLE
    return ErrorCode.NONE


def is_addressed_to(replica: Replica, voter: ReplicaKey | None) -> bool:
    """False when the request names another replica key; a missing part matches anything."""
    if voter is None:
        return True
    return voter.id == replica.local.id and voter.directory_id in (None, replica.local.directory_id)

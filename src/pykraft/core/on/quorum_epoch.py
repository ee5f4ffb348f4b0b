"""A leader announces itself with BeginQuorumEpoch, and starts the next election with EndQuorumEpoch when it resigns.

Source: KIP-595 §BeginQuorumEpoch, §EndQuorumEpoch; KIP-853 (leader endpoints, voter keys, preferred candidates).
"""

from dataclasses import replace

from pykraft.core import messages
from pykraft.core.departure import note_goodbye
from pykraft.core.events import ConnectionLost, RequestReceived, ResponseReceived
from pykraft.core.on.epoch_raise import raise_error
from pykraft.core.on.following import check_consistent, correct_listeners, learn_leader, settle_answer
from pykraft.core.on.read import note_confirmation
from pykraft.core.on.requests import is_addressed_to, reply_with_leader, voter_only_error
from pykraft.core.replica import Replica
from pykraft.core.state import Follower, Resigned
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.types import Instant, NodeId


def on_end_quorum_epoch_request(
    replica: Replica, event: RequestReceived, message: messages.EndQuorumEpochRequest, now: Instant
) -> None:
    """Campaign soon, if the leader itself confirms that it has left (`departure`).

    Effects: WriteElectionState if the sender's epoch was news; Reply after it.
    Errors: FENCED_LEADER_EPOCH, INVALID_REQUEST; BROKER_NOT_AVAILABLE when the epoch budget refuses the epoch;
    ProtocolError for a contradiction.
    Source: KIP-595 §EndQuorumEpoch; KafkaRaftClient.handleEndQuorumEpochRequest.
    """
    error = voter_only_error(replica, message.leader_id, message.epoch)
    error = error or raise_error(replica, message.epoch, message.leader_id, now)
    if not error:
        learn_leader(replica, message.epoch, message.leader_id, message.listeners, now)
        state = replica.state
        if isinstance(state, Follower) and state.leader_id == message.leader_id:
            note_goodbye(replica, state, message.successors, now)
    reply_with_leader(replica, event, messages.EndQuorumEpochResponse, error)


def on_end_quorum_epoch_response(
    replica: Replica, event: ResponseReceived, message: messages.EndQuorumEpochResponse, now: Instant
) -> None:
    """The voter knows that this leader resigned: stop telling it.

    Source: KIP-595 §EndQuorumEpoch; KafkaRaftClient.handleEndQuorumEpochResponse.
    """
    if not settle_answer(replica, event.peer_id, message, now):
        return
    state = replica.state
    if isinstance(state, Resigned):
        replica.state = replace(state, unacknowledged=state.unacknowledged - {NodeId(event.peer_id)})


def on_connection_lost(replica: Replica, event: ConnectionLost, _now: Instant) -> None:
    """Tell a voter again whose process may have ended after it acknowledged that this leader resigned."""
    state = replica.state
    # If it has ended, it refuses the next connection, and a leader that nobody can succeed does not wait (ADR 045).
    if isinstance(state, Resigned) and event.peer_id in replica.voters.ids:
        replica.state = replace(state, unacknowledged=state.unacknowledged | {NodeId(event.peer_id)})


def on_begin_quorum_epoch_request(
    replica: Replica, event: RequestReceived, message: messages.BeginQuorumEpochRequest, now: Instant
) -> None:
    """Follow the sender if it leads this or a higher epoch.

    Effects: WriteElectionState if there was news; Reply after it.
    Errors: FENCED_LEADER_EPOCH, INVALID_REQUEST, INVALID_VOTER_KEY; BROKER_NOT_AVAILABLE when the epoch budget refuses
    the epoch; ProtocolError for a second leader of an epoch, for this node as its own leader, or for a leader without
    endpoints.
    Source: KIP-595 §BeginQuorumEpoch; KafkaRaftClient.handleBeginQuorumEpochRequest.
    """
    error = voter_only_error(replica, message.leader_id, message.epoch)
    if not error:
        check_consistent(replica, message.epoch, message.leader_id)
        if not len(replica.listeners_of(message.leader_id, message.listeners)):
            raise ProtocolError(f"leader {message.leader_id} of epoch {message.epoch} names no endpoint")
        error = raise_error(replica, message.epoch, message.leader_id, now)
    if not error:
        learn_leader(replica, message.epoch, message.leader_id, message.listeners, now)
        correct_listeners(replica, message.epoch, message.leader_id, message.listeners)
        # We follow the sender even if it addressed another replica key, and then report the mismatch. An unproven
        # replica also answers with this error: it must not confirm a leader, because a read could count the
        # confirmation.
        if not is_addressed_to(replica, message.voter) or replica.survey is not None:
            error = ErrorCode.INVALID_VOTER_KEY
    reply_with_leader(replica, event, messages.BeginQuorumEpochResponse, error)


def on_begin_quorum_epoch_response(
    replica: Replica, event: ResponseReceived, message: messages.BeginQuorumEpochResponse, now: Instant
) -> None:
    """Step down if the voter knows a higher epoch; an acknowledgement confirms the leader to reads that wait.

    Source: KIP-595 §BeginQuorumEpoch; KafkaRaftClient.handleBeginQuorumEpochResponse.
    """
    if settle_answer(replica, event.peer_id, message, now):
        note_confirmation(replica, NodeId(event.peer_id), event.correlation_id)

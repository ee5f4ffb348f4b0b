"""BeginQuorumEpoch: a leader announces itself to voters that do not fetch from it.

Source: KIP-595 §BeginQuorumEpoch, KIP-853 (leader endpoints, voter keys).
"""

from __future__ import annotations

from pykraft.core.events import RequestReceived, ResponseReceived
from pykraft.core.messages import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from pykraft.core.on.epoch_raise import raise_error
from pykraft.core.on.following import check_consistent, correct_listeners, learn_leader, settle_answer
from pykraft.core.on.read import note_confirmation
from pykraft.core.on.requests import is_addressed_to, reply_with_leader, voter_only_error
from pykraft.core.replica import Replica
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.types import Instant, NodeId


def on_begin_quorum_epoch_request(
    replica: Replica, event: RequestReceived, message: BeginQuorumEpochRequest, now: Instant
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
    reply_with_leader(replica, event, BeginQuorumEpochResponse, error)


def on_begin_quorum_epoch_response(
    replica: Replica, event: ResponseReceived, message: BeginQuorumEpochResponse, now: Instant
) -> None:
    """Step down if the voter knows a higher epoch; an acknowledgement confirms the leader to reads that wait.

    Source: KIP-595 §BeginQuorumEpoch; KafkaRaftClient.handleBeginQuorumEpochResponse.
    """
    if settle_answer(replica, event.peer_id, message, now):
        note_confirmation(replica, NodeId(event.peer_id), event.correlation_id)

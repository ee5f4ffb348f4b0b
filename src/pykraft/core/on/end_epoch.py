"""EndQuorumEpoch: a resigning leader starts the next election without waiting for a timeout.

Also what a broken connection means to a leader that resigned.

Source: KIP-595 §EndQuorumEpoch, KIP-853 (preferred candidates).
"""

from __future__ import annotations

from dataclasses import replace

from pykraft.core.departure import note_goodbye
from pykraft.core.events import ConnectionLost, RequestReceived, ResponseReceived
from pykraft.core.messages import EndQuorumEpochRequest, EndQuorumEpochResponse
from pykraft.core.on.epoch_raise import raise_error
from pykraft.core.on.following import learn_leader, settle_answer
from pykraft.core.on.requests import reply_with_leader, voter_only_error
from pykraft.core.replica import Replica
from pykraft.core.state import Follower, Resigned
from pykraft.types import Instant, NodeId


def on_end_quorum_epoch_request(
    replica: Replica, event: RequestReceived, message: EndQuorumEpochRequest, now: Instant
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
    reply_with_leader(replica, event, EndQuorumEpochResponse, error)


def on_end_quorum_epoch_response(
    replica: Replica, event: ResponseReceived, message: EndQuorumEpochResponse, now: Instant
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

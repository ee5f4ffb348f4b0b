"""EndQuorumEpoch: a resigning leader starts the next election without waiting for a timeout.

Also what a broken connection means to a leader that resigned.

Source: KIP-595 §EndQuorumEpoch, KIP-853 (preferred candidates).
"""

from __future__ import annotations

from dataclasses import replace

from pykraft.core.election import successor_backoff_ms
from pykraft.core.events import ConnectionLost, RequestReceived, ResponseReceived
from pykraft.core.messages import EndQuorumEpochRequest, EndQuorumEpochResponse
from pykraft.core.never_leads import abstains, leave_to_successors
from pykraft.core.on.epoch_raise import raise_error
from pykraft.core.on.following import learn_leader, settle_answer
from pykraft.core.on.requests import reply_with_leader, voter_only_error
from pykraft.core.replica import Replica
from pykraft.core.state import Follower, Resigned
from pykraft.types import Instant, NodeId


def on_end_quorum_epoch_request(
    replica: Replica, event: RequestReceived, message: EndQuorumEpochRequest, now: Instant
) -> None:
    """Campaign soon: the first successor at once, the others later in the order of the list.

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
        is_of_leader = isinstance(state, Follower) and state.leader_id == message.leader_id
        if is_of_leader and abstains(replica):
            leave_to_successors(replica, now)
        elif isinstance(state, Follower) and is_of_leader and replica.local.key is not None:
            # The leader no longer counts as alive, so we grant pre-votes from now on. Kafka denies them until its own
            # timeout, which delays the hand-over with five voters.
            backoff_ms = successor_backoff_ms(
                replica.local.key, message.successors, replica.config.election_backoff_max_ms
            )
            replica.state = replace(
                state,
                fetch_deadline_ms=now.mono_ms + backoff_ms,
                part_deadline_ms=None,
                has_fetched=False,
                leader_has_left=True,
            )
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

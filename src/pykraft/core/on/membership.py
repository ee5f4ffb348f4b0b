"""What a follower tells or asks its leader about its own membership, every fetch timeout at most.

- A voter tells where it listens and what it supports, when its entry in the log says otherwise; at level 0, where there
  is no entry, once to each leader.
- An observer that is to join by itself asks to become a voter; if its id is one with another directory id, its disk was
  replaced: it asks for that one to be removed first.

Either takes the place of one Fetch. The answer to a joiner does not wait for the commit, since it is the joiner's own
next Fetch that commits (KIP-1186).

Source: KIP-853 §UpdateRaftVoter, KIP-1186; Kafka ``KafkaRaftClient.pollFollowerAsVoter`` and ``…AsObserver``.
"""

from __future__ import annotations

from dataclasses import replace

from pykraft.core.effects import Peer
from pykraft.core.events import ResponseReceived
from pykraft.core.messages import (
    NONE,
    AddVoterRequest,
    ChangeVoterResponse,
    RemoveVoterRequest,
    Request,
    UpdateVoterRequest,
    UpdateVoterResponse,
)
from pykraft.core.on.asking import send
from pykraft.core.on.following import settle_answer
from pykraft.core.outbox import Relies
from pykraft.core.replica import Replica
from pykraft.core.state import Follower
from pykraft.errors import ErrorCode
from pykraft.types import Instant


def speak_of_membership(replica: Replica, state: Follower, now: Instant) -> bool:
    """Send what is due; False when nothing was.

    Effects: Send.
    """
    connections = replica.connections
    is_due = state.update_deadline_ms <= now.mono_ms and not replica.has_given_up_leader
    if not is_due or connections.has_in_flight or connections.is_asked(state.leader_id):
        return False
    message = _due(replica, state)
    endpoint = state.leader_listeners.get(replica.local.default_listener)
    if message is None or endpoint is None or connections.is_backing_off(state.leader_id):
        return False
    replica.state = replace(state, update_deadline_ms=now.mono_ms + replica.config.fetch_timeout_ms)
    send(replica, Peer(id=state.leader_id, endpoint=endpoint), message, now, Relies.ELECTION)
    return True


def _due(replica: Replica, state: Follower) -> Request | None:
    local = replica.local
    if local.key is None or replica.survey is not None:  # unproven, it speaks for no voter
        return None
    entry = replica.voters.get(local.key.id)
    if replica.is_voter:
        if state.has_updated or (replica.kraft_version > 0 and entry == local.voter):
            return None
        return UpdateVoterRequest(
            epoch=state.epoch, voter=local.key, listeners=local.listeners, kraft_version=local.kraft_version
        )
    if replica.kraft_version < 1 or not replica.config.auto_join:
        return None
    if entry is not None:
        return RemoveVoterRequest(voter=entry.key)
    return AddVoterRequest(
        voter=local.key,
        listeners=local.listeners,
        timeout_ms=replica.config.request_timeout_ms,
        ack_when_committed=False,
    )


def on_update_voter_response(
    replica: Replica, event: ResponseReceived, message: UpdateVoterResponse, now: Instant
) -> None:
    """The leader knows, or has no use for it; else it is told again.

    Source: KIP-853 §UpdateRaftVoter; KafkaRaftClient.handleUpdateVoterResponse.
    """
    if message.error == ErrorCode.UNSUPPORTED_VERSION or settle_answer(replica, event.peer_id, message, now):
        on_update_unsupported(replica)


def on_update_unsupported(replica: Replica) -> None:
    """At level 0 this leader need not, or cannot, be told again; an entry in the log says by itself what it has."""
    if isinstance(replica.state, Follower) and replica.kraft_version == 0:
        replica.state = replace(replica.state, has_updated=True)


def on_change_voter_response(
    replica: Replica, event: ResponseReceived, message: ChangeVoterResponse, now: Instant
) -> None:
    """Whether a joiner was heard shows in the log; an error is a reason to wait a little.

    Source: KIP-1186; KafkaRaftClient.handleAddVoterResponse.
    """
    if message.error != NONE:
        replica.connections.back_off(event.peer_id, now.mono_ms)

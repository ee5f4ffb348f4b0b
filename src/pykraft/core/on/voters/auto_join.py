"""What a follower tells or asks its leader about its own membership, at most once per fetch timeout.

- A voter sends its listeners and supported levels (UpdateRaftVoter) when its entry in the log differs. At level 0 the
  log has no entry, so it sends them once to each leader.
- An observer with auto-join asks to become a voter (AddRaftVoter). If the voter set has its id with another directory
  id, its disk was replaced: it first asks to remove that voter.

Each of them replaces one Fetch.

Source: KIP-853 §UpdateRaftVoter, KIP-1186; Kafka ``KafkaRaftClient.pollFollowerAsVoter`` and ``…AsObserver``.
"""

from dataclasses import replace

from pykraft.core import messages
from pykraft.core.effects import Peer
from pykraft.core.events import ResponseReceived
from pykraft.core.on.contradiction import note_response
from pykraft.core.on.following import settle_answer
from pykraft.core.on.send_requests import send
from pykraft.core.outbox import Relies
from pykraft.core.replica import Replica
from pykraft.core.state import Follower
from pykraft.errors import ErrorCode
from pykraft.types import Instant


def speak_of_membership(replica: Replica, state: Follower, now: Instant) -> bool:
    """Send the request that is due; False when none is.

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


def _due(replica: Replica, state: Follower) -> messages.Request | None:
    local = replica.local
    # An unproven replica speaks for no voter.
    if local.key is None or replica.survey is not None:
        return None
    entry = replica.voters.get(local.key.id)
    if replica.is_voter:
        if state.has_updated or (replica.kraft_version > 0 and entry == local.voter):
            return None
        return messages.UpdateVoterRequest(
            epoch=state.epoch, voter=local.key, listeners=local.listeners, kraft_version=local.kraft_version
        )
    if replica.kraft_version < 1 or not replica.config.auto_join:
        return None
    if entry is not None:
        # The voter set has this id with another directory id: the disk was replaced. Ask to remove the old voter first.
        return messages.RemoveVoterRequest(voter=entry.key)
    return messages.AddVoterRequest(
        voter=local.key,
        listeners=local.listeners,
        timeout_ms=replica.config.request_timeout_ms,
        # What commits the change may be this replica's next Fetch, so it cannot wait for the commit (KIP-1186).
        ack_when_committed=False,
    )


def on_update_voter_response(
    replica: Replica, event: ResponseReceived, message: messages.UpdateVoterResponse, now: Instant
) -> None:
    """The leader has this voter's data or cannot use it; otherwise the voter sends it again.

    This request took the place of a Fetch, so its answer restarts the fetch timeout, as in Kafka.

    Source: KIP-853 §UpdateRaftVoter; KafkaRaftClient.handleUpdateVoterResponse.
    """
    if message.error == ErrorCode.REQUEST_TIMED_OUT:
        # The leader is changing the voters, or could not reach the new endpoint. The next request is a fetch timeout
        # away, so there is no need to back off: fetch at once.
        settle_answer(replica, event.peer_id, replace(message, error=messages.NONE), now)
    elif message.error == ErrorCode.UNSUPPORTED_VERSION or settle_answer(replica, event.peer_id, message, now):
        on_update_unsupported(replica)
        if isinstance(replica.state, Follower) and replica.state.leader_id == event.peer_id:
            note_response(replica, now, has_progress=False)


def on_update_unsupported(replica: Replica) -> None:
    """Do not send UpdateRaftVoter to this leader again at level 0."""
    # Above level 0, the entry in the log shows whether the leader has the data.
    if isinstance(replica.state, Follower) and replica.kraft_version == 0:
        replica.state = replace(replica.state, has_updated=True)


def on_change_voter_response(
    replica: Replica, event: ResponseReceived, message: messages.ChangeVoterResponse, now: Instant
) -> None:
    """Back off after an error; whether the request succeeded shows in the log.

    Source: KIP-1186; KafkaRaftClient.handleAddVoterResponse.
    """
    if message.error != messages.NONE:
        replica.connections.back_off(event.peer_id, now.mono_ms)

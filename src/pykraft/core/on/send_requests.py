"""The requests that a replica sends, each to peers that are ready for one.

Source: KIP-595, KIP-630, KIP-853, KIP-996, KIP-1166; Kafka ``KafkaRaftClient.build*Request``; KAFKA-19354.
"""

from dataclasses import replace
from typing import Final

from pykraft.core import messages
from pykraft.core.effects import Peer, Send
from pykraft.core.election import NEVER_MS
from pykraft.core.outbox import Relies
from pykraft.core.replica import Replica
from pykraft.core.state import Candidate, Follower, Leader, Prospective, Resigned
from pykraft.types import NO_IO, Endpoint, Instant, NodeId, Offset, OffsetAndEpoch, ReplicaKey

PROBE_OFFSET: Final = Offset(2**60)
"""An offset beyond the end of any log."""
QUESTIONS_BEFORE_TURNS: Final = 9
"""Questions for a pre-vote that go to the present endpoint only: an ordinary election takes fewer."""
QUESTIONS_PER_TURN: Final = 3
"""Then the first of so many goes to another endpoint."""


def ask_for_votes(replica: Replica, state: Prospective | Candidate, now: Instant) -> None:
    """Send Vote or PreVote to every voter that has not answered.

    When no leader is heard for long, each third PreVote goes elsewhere: in turn to endpoints that the voter had, and
    to the bootstrap servers that are no voter's. Another node may have told its present one while it was down, and it
    can only tell a leader its own again (ADR 145).
    """
    assert replica.local.key is not None
    asked = replica.connections.pre_votes_asked
    for node_id in state.tally.unanswered:
        message = messages.VoteRequest(
            epoch=state.epoch,
            candidate=replica.local.key,
            voter=voter_key(replica, node_id),
            last=replica.log.end,
            pre_vote=isinstance(state, Prospective),
        )
        # A Vote goes where the voter was last asked for its pre-vote, since it has probably granted that one.
        count = asked.get(node_id, 0) + message.pre_vote
        peer = _peer_for_vote(replica, node_id, count)
        if peer is not None and replica.connections.is_ready(node_id):
            asked[node_id] = count
            send(replica, peer, message, now, Relies.ELECTION)


def _peer_for_vote(replica: Replica, node_id: NodeId, count: int) -> Peer | None:
    """Where the voter is asked, when it is asked for its pre-vote for the ``count``-th time."""
    present = replica.voter_peer(node_id)
    turn, place = divmod(count - 1 - QUESTIONS_BEFORE_TURNS, QUESTIONS_PER_TURN)
    if present is None or turn < 0 or place:
        return present
    listener = replica.local.default_listener
    _, *former = replica.voter_history.endpoints_of(node_id, listener)
    taken = {voter.listeners.get(listener) for voter in replica.voters.voters} | {replica.local.listeners.get(listener)}
    others = [*former, *(server for server in replica.bootstrap if server not in taken and server not in former)]
    return Peer(id=node_id, endpoint=others[turn % len(others)]) if others else present


def say_begin_quorum_epoch(replica: Replica, leader: Leader, now: Instant) -> None:
    """Announce this leader, throughout its epoch, to voters that have not fetched for half a fetch timeout."""
    if leader.begin_quorum_deadline_ms > now.mono_ms:
        return
    period_ms = replica.config.fetch_timeout_ms // 2
    # Repeat it: a voter that is down now must still learn of this leader later.
    leader.begin_quorum_deadline_ms = now.mono_ms + max(1, period_ms) if len(replica.voters) > 1 else NEVER_MS
    for node_id, voter in leader.progress.voters.items():
        if node_id != leader.leader_id and voter.is_silent_for(period_ms, now):
            send_to_voter(replica, node_id, begin_quorum_epoch(replica, leader, node_id), now)


def begin_quorum_epoch(replica: Replica, leader: Leader, voter_id: NodeId) -> messages.BeginQuorumEpochRequest:
    return messages.BeginQuorumEpochRequest(
        epoch=leader.epoch,
        leader_id=leader.leader_id,
        voter=voter_key(replica, voter_id),
        listeners=replica.local.listeners,
    )


def say_end_quorum_epoch(replica: Replica, state: Resigned, now: Instant) -> None:
    """Send EndQuorumEpoch to every voter that has not acknowledged it; without leader endpoints, as in Kafka."""
    message = messages.EndQuorumEpochRequest(epoch=state.epoch, leader_id=state.leader_id, successors=state.successors)
    for node_id in sorted(state.unacknowledged):
        if replica.voters.get(node_id) is not None:
            send_to_voter(replica, node_id, message, now)


def send_fetch_to_bootstrap(replica: Replica, now: Instant, leader: Endpoint | None = None) -> None:
    """Ask a random bootstrap server who leads, unless a request is outstanding; skip the known leader."""
    # A leader that was given up is never asked. While the leader backs off, it is not asked under a bootstrap server's
    # id either: a Fetch that timed out while it waited for the disk would then leave together with this one.
    without = replica.leader_id if replica.has_given_up_leader else None
    peers = [
        peer for peer in replica.bootstrap_peers() if peer.id != without and (peer.id >= 0 or peer.endpoint != leader)
    ]
    peer = replica.connections.choose(peers, replica.rng)
    if peer is not None:
        send(replica, peer, _fetch(replica), now, Relies.LOG)


def send_fetch_to_leader(replica: Replica, state: Follower, now: Instant) -> None:
    """Fetch records or a snapshot from the leader; while that fails, ask a bootstrap server for a newer leader.

    At most one Fetch is outstanding, and it leaves only when what it acknowledges is durable.
    """
    if replica.connections.has_in_flight or replica.connections.is_asked(state.leader_id):
        return
    endpoint = state.leader_listeners.get(replica.local.default_listener)
    if endpoint is None or replica.has_given_up_leader or replica.connections.is_backing_off(state.leader_id):
        send_fetch_to_bootstrap(replica, now, endpoint)
        return
    leader, download = Peer(id=state.leader_id, endpoint=endpoint), state.download
    # A FetchSnapshot that brought no answer is not repeated: send a Fetch first.
    if download is None or download.is_asked:
        if download is not None:
            replica.state = replace(state, download=None)
        survey = replica.survey
        # A survey asks the leader once how far the log has to reach: case (b) of `core.on.proof`.
        if survey is not None and survey.has_all_told and not survey.is_probed:
            probe = send(replica, leader, _probe(replica), now, Relies.LOG)
            replica.survey = replace(survey, probe=probe)
        else:
            send(replica, leader, _fetch(replica), now, Relies.LOG)
    elif download.position is not None:
        # A FetchSnapshot acknowledges nothing, so it need not wait for the log.
        replica.state = replace(state, download=replace(download, is_asked=True))
        send(replica, leader, _fetch_snapshot(replica, download.snapshot_id, download.position), now, Relies.ELECTION)


def _fetch(replica: Replica) -> messages.FetchRequest:
    high_watermark = replica.asked_high_watermark = replica.high_watermark
    return messages.FetchRequest(
        replica=_identity(replica),
        epoch=replica.epoch,
        fetch_offset=replica.log.end_offset,
        last_fetched_epoch=replica.log.last_epoch,
        wait_ms_max=replica.config.fetch_wait_ms_max,
        size_bytes_max=min(replica.config.fetch_size_bytes_max, replica.asked_size_bytes),
        high_watermark=-1 if high_watermark is None else high_watermark,
        # A node without an id never votes, so records may wait for their commit: then one answer brings both.
        is_committed_only=replica.local.id is None,
    )


def _probe(replica: Replica) -> messages.FetchRequest:
    """A Fetch far beyond the log end: the leader's diverging epoch then tells where its log ends in this epoch."""
    return replace(_fetch(replica), fetch_offset=PROBE_OFFSET, last_fetched_epoch=replica.epoch, wait_ms_max=0)


def _identity(replica: Replica) -> ReplicaKey | None:
    """The replica key for a Fetch; None for an unproven replica."""
    # A leader counts a Fetch with a key as an acknowledgement, and an unproven replica must not acknowledge anything.
    return replica.local.key if replica.survey is None else None


def _fetch_snapshot(replica: Replica, snapshot_id: OffsetAndEpoch, position: int) -> messages.FetchSnapshotRequest:
    return messages.FetchSnapshotRequest(
        replica=_identity(replica),
        epoch=replica.epoch,
        snapshot_id=snapshot_id,
        position=position,
        size_bytes_max=replica.config.fetch_snapshot_size_bytes_max,
    )


def voter_key(replica: Replica, node_id: NodeId) -> ReplicaKey:
    voter = replica.voters.get(node_id)
    assert voter is not None
    return voter.key


def send_to_voter(
    replica: Replica, node_id: NodeId, message: messages.Request, now: Instant, *, is_aside: bool = False
) -> bool:
    """Send a request to a voter; False when its endpoint is unknown or it is not ready.

    Effects: Send.
    """
    return request_to_voter(replica, node_id, message, now, is_aside=is_aside) is not None


def request_to_voter(
    replica: Replica, node_id: NodeId, message: messages.Request, now: Instant, *, is_aside: bool = False
) -> int | None:
    """As `send_to_voter`; returns the correlation id, or None when nothing was sent.

    Effects: Send.
    """
    peer = where_is(replica, node_id)
    if peer is None or not replica.connections.is_ready(peer.id):
        return None
    return send(replica, peer, message, now, Relies.ELECTION, is_aside=is_aside)


def where_is(replica: Replica, node_id: NodeId) -> Peer | None:
    """Where this voter is: for the leader that this replica follows, where it fetches from it."""
    state = replica.state
    if isinstance(state, Follower) and state.leader_id == node_id:
        endpoint = state.leader_listeners.get(replica.local.default_listener)
        # The voter set may have the endpoint from before the leader moved. A request to that one would end the
        # connection over which this replica fetches, again and again.
        if endpoint is not None:
            return Peer(id=node_id, endpoint=endpoint)
    return replica.voter_peer(node_id)


def send(
    replica: Replica, peer: Peer, message: messages.Request, now: Instant, relies: Relies, *, is_aside: bool = False
) -> int:
    """Send a request to a peer that is ready; return its correlation id. No other request waits for one sent aside.

    Effects: Send.
    """
    correlation_id = replica.connections.sent(peer.id, now.mono_ms, is_aside=is_aside)
    replica.connections.asked_at[peer.id] = peer.endpoint
    # The outbox replaces NO_IO by the job that makes durable what the request relies on.
    effect = Send(after=NO_IO, peer=peer, correlation_id=correlation_id, message=message)
    replica.outbox.send(effect, relies)
    return correlation_id

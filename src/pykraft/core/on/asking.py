"""The requests a replica sends, each to peers that may be asked now.

Source: KIP-595, KIP-630, KIP-853, KIP-996, KIP-1166; Kafka ``KafkaRaftClient.build*Request``; KAFKA-19354.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pykraft.core.effects import Peer, Send
from pykraft.core.election import NEVER_MS
from pykraft.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    Request,
    VoteRequest,
)
from pykraft.core.outbox import Relies
from pykraft.core.replica import Replica
from pykraft.core.state import Candidate, Follower, Leader, Prospective, Resigned
from pykraft.types import NO_IO, Endpoint, Instant, NodeId, Offset, OffsetAndEpoch, ReplicaKey

PROBE_OFFSET: Final = Offset(2**60)
"""Beyond the end of any log."""


def ask_for_votes(replica: Replica, state: Prospective | Candidate, now: Instant) -> None:
    """Vote or PreVote to every voter that has not answered."""
    assert replica.local.key is not None
    for node_id in state.tally.unanswered:
        message = VoteRequest(
            epoch=state.epoch,
            candidate=replica.local.key,
            voter=voter_key(replica, node_id),
            last=replica.log.end,
            pre_vote=isinstance(state, Prospective),
        )
        send_to_voter(replica, node_id, message, now)


def say_begin_quorum_epoch(replica: Replica, leader: Leader, now: Instant) -> None:
    """Announce this leader to voters that have not fetched for half a fetch timeout, for the whole term."""
    if leader.begin_quorum_deadline_ms > now.mono_ms:
        return
    period_ms = replica.config.fetch_timeout_ms // 2
    leader.begin_quorum_deadline_ms = now.mono_ms + max(1, period_ms) if len(replica.voters) > 1 else NEVER_MS
    for node_id, voter in leader.progress.voters.items():
        if node_id != leader.leader_id and voter.is_silent_for(period_ms, now):
            message = BeginQuorumEpochRequest(
                epoch=leader.epoch,
                leader_id=leader.leader_id,
                voter=voter_key(replica, node_id),
                listeners=replica.local.listeners,
            )
            send_to_voter(replica, node_id, message, now)


def say_end_quorum_epoch(replica: Replica, state: Resigned, now: Instant) -> None:
    """Tell every voter that has not acknowledged it that this leader is gone; where it was is not said, as in Kafka."""
    message = EndQuorumEpochRequest(
        epoch=state.epoch,
        leader_id=state.leader_id,
        successors=state.successors,
    )
    for node_id in sorted(state.unacknowledged):
        if replica.voters.get(node_id) is not None:
            send_to_voter(replica, node_id, message, now)


def send_fetch_to_bootstrap(replica: Replica, now: Instant, leader: Endpoint | None = None) -> None:
    """Ask any bootstrap server who leads, if nothing is being asked already; not the leader that is known to be there.

    A leader that was given a rest is not asked under the name of a bootstrap server meanwhile: a Fetch that timed out
    while it waited for the disk would leave together with that one. One that was given up is not asked at all.
    """
    without = replica.leader_id if replica.has_given_up_leader else None
    peers = [
        peer for peer in replica.bootstrap_peers() if peer.id != without and (peer.id >= 0 or peer.endpoint != leader)
    ]
    peer = replica.connections.choose(peers, replica.rng)
    if peer is not None:
        send(replica, peer, _fetch(replica), now, Relies.LOG)


def send_fetch_to_leader(replica: Replica, state: Follower, now: Instant) -> None:
    """Fetch from the leader, records or a snapshot; while it fails, ask a bootstrap server whether there is another.

    One Fetch at a time, sent only when what it acknowledges is durable. A FetchSnapshot acknowledges nothing; one that
    brought no answer is not sent again: a Fetch comes first.
    """
    if replica.connections.has_in_flight or replica.connections.is_asked(state.leader_id):
        return
    endpoint = state.leader_listeners.get(replica.local.default_listener)
    if endpoint is None or replica.has_given_up_leader or replica.connections.is_backing_off(state.leader_id):
        send_fetch_to_bootstrap(replica, now, endpoint)
        return
    leader, download = Peer(id=state.leader_id, endpoint=endpoint), state.download
    if download is None or download.is_asked:
        if download is not None:
            replica.state = replace(state, download=None)
        survey = replica.survey
        if survey is not None and survey.has_all_told and not survey.is_probed:
            probe = send(replica, leader, _probe(replica), now, Relies.LOG)
            replica.survey = replace(survey, probe=probe)
        else:
            send(replica, leader, _fetch(replica), now, Relies.LOG)
    elif download.position is not None:
        replica.state = replace(state, download=replace(download, is_asked=True))
        send(replica, leader, _fetch_snapshot(replica, download.snapshot_id, download.position), now, Relies.ELECTION)


def _fetch(replica: Replica) -> FetchRequest:
    high_watermark = replica.high_watermark
    return FetchRequest(
        replica=_identity(replica),
        epoch=replica.epoch,
        fetch_offset=replica.log.end_offset,
        last_fetched_epoch=replica.log.last_epoch,
        wait_ms_max=replica.config.fetch_wait_ms_max,
        size_bytes_max=replica.config.fetch_size_bytes_max,
        high_watermark=-1 if high_watermark is None else high_watermark,
    )


def _probe(replica: Replica) -> FetchRequest:
    """A Fetch from far behind the leader's log: it is answered with where the log ends, as the end of this epoch."""
    return replace(
        _fetch(replica),
        fetch_offset=PROBE_OFFSET,
        last_fetched_epoch=replica.epoch,
        wait_ms_max=0,
    )


def _identity(replica: Replica) -> ReplicaKey | None:
    """What a leader counts as a promise bears the replica's id; an unproven replica promises nothing."""
    return replica.local.key if replica.survey is None else None


def _fetch_snapshot(replica: Replica, snapshot_id: OffsetAndEpoch, position: int) -> FetchSnapshotRequest:
    return FetchSnapshotRequest(
        replica=_identity(replica),
        epoch=replica.epoch,
        snapshot_id=snapshot_id,
        position=position,
        size_bytes_max=replica.config.fetch_snapshot_size_bytes_max,
    )


def voter_key(replica: Replica, node_id: NodeId) -> ReplicaKey:
    """Whom a request to this voter is addressed to."""
    voter = replica.voters.get(node_id)
    assert voter is not None
    return voter.key


def send_to_voter(replica: Replica, node_id: NodeId, message: Request, now: Instant, *, is_aside: bool = False) -> bool:
    """Ask a voter, if its endpoint is known and it is ready; False when it is not.

    Effects: Send.
    """
    peer = replica.voter_peer(node_id)
    if peer is None or not replica.connections.is_ready(peer.id):
        return False
    send(replica, peer, message, now, Relies.ELECTION, is_aside=is_aside)
    return True


def send(
    replica: Replica, peer: Peer, message: Request, now: Instant, relies: Relies, *, is_aside: bool = False
) -> int:
    """Ask a peer that is ready; returns the correlation id. Nothing else waits for what is asked aside.

    Effects: Send.
    """
    correlation_id = replica.connections.sent(peer.id, now.mono_ms, is_aside=is_aside)
    effect = Send(after=NO_IO, peer=peer, correlation_id=correlation_id, message=message)
    replica.outbox.send(effect, relies)
    return correlation_id

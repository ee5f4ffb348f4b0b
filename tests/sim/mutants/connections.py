"""Bugs of connections that are slow, break or are refused, and of who is asked for the leader (ADR 048, ADR 063)."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from pykraft.core import raft
from pykraft.core.answer_pace import AnswerPace
from pykraft.core.connections import Connections
from pykraft.core.effects import Peer
from pykraft.core.events import AnswerLeaving, SendFailed
from pykraft.core.leader.accumulation import Accumulation
from pykraft.core.leader.appending import append_planned, drain_if_due, may_drain
from pykraft.core.on import early_campaign
from pykraft.core.replica import Replica
from pykraft.core.state import Follower, Leader
from pykraft.host.inbound import Inbound
from pykraft.types import NO_LISTENERS, Instant
from tests.sim.mutants.patch import Patch, bug


@bug("Kafka's BatchAccumulator fills batches of 8 MiB; ours, until an outside review found it", "bandwidth")
def lingering_fills_the_largest_batch(patch: Patch) -> None:
    """Lingering proposals fill a batch up to the largest size allowed, although a Fetch asks for less."""
    begin = Accumulation.__init__

    def begin_large(self: Accumulation, **given: Any) -> None:
        begin(self, **{**given, "fill_size_bytes": None})

    patch.setattr(Accumulation, "__init__", begin_large)


@bug("Kafka's RequestManager; ours, until an outside review found it", "bandwidth")
def answers_that_arrive_are_thrown_away(patch: Patch) -> None:
    """A request has a fixed timeout: a node discards an answer that is still arriving then, and asks for it again."""

    def progressed(self: Connections, *_: int) -> bool:
        del self
        return False

    patch.setattr(Connections, "progressed", progressed)


@bug("Kafka's FollowerState (only a whole answer counts)", "bandwidth")
def follower_campaigns_while_it_receives(patch: Patch) -> None:
    """A follower that is receiving an answer campaigns at its fetch timeout all the same."""

    def hears(self: Follower, now: Instant, fetch_timeout_ms: int) -> Follower:
        del now, fetch_timeout_ms
        return self

    patch.setattr(Follower, "hears", hears)


@bug("Kafka's LeaderState (only a Fetch counts)", "bandwidth")
def leader_does_not_see_its_answer_leave(patch: Patch) -> None:
    """A leader resigns while a majority is still receiving its answers, because none of them has fetched again."""

    def leaving(self: Inbound) -> list[AnswerLeaving]:
        del self
        return []

    patch.setattr(Inbound, "leaving", leaving)


@bug("TCP keep-alive taken for progress; the reader of slow HTTP (Slowloris)", "bandwidth")
def every_byte_is_a_sign_of_life(patch: Patch) -> None:
    """A peer that sends one byte a second is waited for as long as one that uses the whole link."""

    def advance(self: AnswerPace, moved_bytes: int, size_bytes: int, now_ms: int) -> bool:
        del size_bytes, now_ms
        moves, self.moved_bytes = moved_bytes > self.moved_bytes, max(moved_bytes, self.moved_bytes)
        return moves

    patch.setattr(AnswerPace, "advance", advance)


@bug("Kafka's BatchAccumulator.drain; ours, until an outside review found it")
def backlog_is_appended_at_once(patch: Patch) -> None:
    """After a disk stall a leader encodes and appends its whole backlog in one step."""

    def drain_all(replica: Replica, leader: Leader, now: Instant) -> None:
        due_ms = leader.accumulation.due_ms()
        if due_ms is not None and due_ms <= now.mono_ms and may_drain(replica):
            append_planned(replica, leader, leader.accumulation.drain())

    patch.everywhere(drain_if_due, drain_all)


@bug("etcd's PreVote without CheckQuorum (a partitioned node disturbs the leader); ADR 063", "failover")
def broken_connection_counts_as_refused(patch: Patch) -> None:
    """A follower whose connection breaks asks for pre-votes at once, although it could connect again."""
    on_send_failed = raft.on_send_failed

    def on_failed(replica: Replica, event: SendFailed, now: Instant) -> None:
        on_send_failed(replica, replace(event, is_refused=True), now)

    patch.everywhere(on_send_failed, on_failed)


@bug("ADR 063 (one pre-vote for a lost connection)", "failover")
def each_refusal_starts_a_campaign(patch: Patch) -> None:
    """A follower asks for pre-votes again after each refused connection, although nothing has changed since."""
    on_leader_refused = early_campaign.on_leader_refused

    def on_refused(replica: Replica, peer_id: int, now: Instant) -> None:
        state = replica.state
        if isinstance(state, Follower) and state.early_deadline_ms is None:
            replica.state = replace(state, has_fetched=True)
        on_leader_refused(replica, peer_id, now)

    patch.everywhere(on_leader_refused, on_refused)


@bug("Kafka FollowerState (only the timeout counts)", "failover")
def refused_connections_mean_nothing(patch: Patch) -> None:
    """A follower whose leader refuses connections waits for its fetch timeout."""
    patch.everywhere(early_campaign.on_leader_refused, lambda replica, peer_id, now: None)


@bug("Kafka; ours until ADR 048", "machines")
def observers_ask_bootstrap_servers_only(patch: Patch) -> None:
    """An observer whose leader is gone does not ask the voters of its log, and its bootstrap servers are gone, too."""
    peers = Replica.bootstrap_peers

    def first(replica: Replica) -> tuple[Peer, ...]:
        found = peers(replica)
        return tuple(peer for peer in found if peer.id < 0) or found

    patch.setattr(Replica, "bootstrap_peers", first)


@bug("ours, planted; KIP-853 §Snapshots", "machines")
def voters_of_a_snapshot_are_not_asked(patch: Patch) -> None:
    """An observer asks the voters of its log, but not those that only the snapshot before its log names."""
    peers = Replica.bootstrap_peers

    def of_the_log(replica: Replica) -> tuple[Peer, ...]:
        found, named_at = peers(replica), replica.voter_history.voters_offset
        is_in_log = named_at is None or named_at >= replica.log.start_offset
        return found if is_in_log else tuple(peer for peer in found if peer.id < 0)

    patch.setattr(Replica, "bootstrap_peers", of_the_log)


@bug("ours, planted; KIP-853 §Log and voter sets", "machines")
def first_voters_of_the_log_are_asked(patch: Patch) -> None:
    """An observer that finds no leader asks the first voters that its log names, not those of the newest set."""

    def first(replica: Replica) -> tuple[Peer, ...]:
        servers = tuple(Peer(id=-2 - at, endpoint=endpoint) for at, endpoint in enumerate(replica.bootstrap))
        if servers and replica.is_voter:
            return servers
        voters = next(iter([*replica.voter_history._sets.newest_first][-1:]), replica.voters)
        endpoints = {int(each.key.id): each.listeners.get(replica.local.default_listener) for each in voters.voters}
        return (*servers, *(Peer(id=at, endpoint=found) for at, found in endpoints.items() if found))

    patch.setattr(Replica, "bootstrap_peers", first)


@bug("ours, planted; Kafka RequestManager.findReadyBootstrapServer", "machines")
def the_same_server_is_asked_again(patch: Patch) -> None:
    """A node that finds no leader asks the first one that it knows again and again, and nobody else."""

    def first(connections: Connections, peers: Sequence[Peer], _rng: Random) -> Peer | None:
        is_free = not connections.has_in_flight and bool(peers)
        return peers[0] if is_free and connections.is_ready(peers[0].id) else None

    patch.setattr(Connections, "choose", first)


@bug("ours, planted; KIP-853 §Fetch (node endpoints)", "machines")
def a_leader_is_named_without_its_endpoint(patch: Patch) -> None:
    """A node that is asked for the leader names its id only, and the one that asks does not know its endpoint."""
    patch.setattr(Replica, "reply_listeners", lambda replica, listener: NO_LISTENERS)

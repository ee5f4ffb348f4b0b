"""Bugs of who is asked for the leader when every machine that was there at first is gone (ADR 048)."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from pykraft.core.connections import Connections
from pykraft.core.effects import Peer
from pykraft.core.replica import Replica
from pykraft.types import NO_LISTENERS
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.patch import Patch


def observers_ask_bootstrap_servers_only(patch: Patch) -> None:
    """An observer whose leader is gone does not ask the voters of its log, and its bootstrap servers are gone, too."""
    peers = Replica.bootstrap_peers

    def first(replica: Replica) -> tuple[Peer, ...]:
        found = peers(replica)
        return tuple(peer for peer in found if peer.id < 0) or found

    patch.setattr(Replica, "bootstrap_peers", first)


def voters_of_a_snapshot_are_not_asked(patch: Patch) -> None:
    """An observer asks the voters of its log, but not those that only the snapshot before its log names."""
    peers = Replica.bootstrap_peers

    def of_the_log(replica: Replica) -> tuple[Peer, ...]:
        found, named_at = peers(replica), replica.voter_history.voters_offset
        is_in_log = named_at is None or named_at >= replica.log.start_offset
        return found if is_in_log else tuple(peer for peer in found if peer.id < 0)

    patch.setattr(Replica, "bootstrap_peers", of_the_log)


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


def the_same_server_is_asked_again(patch: Patch) -> None:
    """A node that finds no leader asks the first one that it knows again and again, and nobody else."""

    def first(connections: Connections, peers: Sequence[Peer], _rng: Random) -> Peer | None:
        is_free = not connections.has_in_flight and bool(peers)
        return peers[0] if is_free and connections.is_ready(peers[0].id) else None

    patch.setattr(Connections, "choose", first)


def a_leader_is_named_without_its_endpoint(patch: Patch) -> None:
    """Who is asked for the leader names its id only, and whoever asks does not know that machine yet."""
    patch.setattr(Replica, "reply_listeners", lambda replica, listener: NO_LISTENERS)


def _bug(plant: Any, source: str) -> Mutant:
    return Mutant(plant=plant, source=source, scenario="machines")


MUTANTS = (
    _bug(observers_ask_bootstrap_servers_only, "Kafka; ours until ADR 048"),
    _bug(voters_of_a_snapshot_are_not_asked, "ours, planted; KIP-853 §Snapshots"),
    _bug(first_voters_of_the_log_are_asked, "ours, planted; KIP-853 §Log and voter sets"),
    _bug(the_same_server_is_asked_again, "ours, planted; Kafka RequestManager.findReadyBootstrapServer"),
    _bug(a_leader_is_named_without_its_endpoint, "ours, planted; KIP-853 §Fetch (node endpoints)"),
)

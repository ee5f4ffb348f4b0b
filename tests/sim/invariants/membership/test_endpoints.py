"""A voter with an invalid host name is found, and one at an address where it never was."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.membership.endpoints import VotersCanBeDialed
from pykraft.sim.scenario.settings import LISTENER, PORTS_APART, listeners_of
from pykraft.types import Endpoint, Listeners, NodeId, ReplicaKey, Voter, VoterSet
from tests.sim.invariants.fakes import node, voter_record, voters_of, world


def made() -> VotersCanBeDialed:
    """Node 2 has moved twice."""
    facts = world()
    moves = {1: 0, 2: 2, 3: 0}
    facts.nodes = {
        node_id: SimpleNamespace(config=SimpleNamespace(advertised_listeners=listeners_of(node_id, times)))
        for node_id, times in moves.items()
    }
    return VotersCanBeDialed(facts)


def test_hosts_are_hosts() -> None:
    made().voters_written(node(1), voter_record(3, voters_of(3)), 0)
    nowhere = Listeners(((LISTENER, Endpoint("a\0b", 2)),))
    voters = VoterSet.of([Voter(key=ReplicaKey(NodeId(2)), listeners=nowhere)])
    with pytest.raises(ViolationError, match="leader 1 writes voters at 4 of whom 2 is at"):
        made().voters_written(node(1), voter_record(4, voters), 0)


@pytest.mark.parametrize(("port", "was_there"), [(2, True), (2 * PORTS_APART + 2, True), (999, False), (60_002, False)])
def test_a_voter_was_at_its_address(port: int, *, was_there: bool) -> None:
    listeners = Listeners(((LISTENER, Endpoint("node-2", port)),))
    record = voter_record(4, VoterSet.of([Voter(key=ReplicaKey(NodeId(2)), listeners=listeners)]))
    if was_there:
        made().voters_written(node(1), record, 0)
        return
    with pytest.raises(ViolationError, match=f"2 is at 'node-2', port {port}"):
        made().voters_written(node(1), record, 0)

"""A voter with an invalid host name is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.membership.endpoints import VotersCanBeDialed
from pykraft.types import Endpoint, Listeners, NodeId, ReplicaKey, Voter, VoterSet
from tests.sim.invariants.fakes import node, voter_record, voters_of, world


def test_hosts_are_hosts() -> None:
    made = VotersCanBeDialed(world())
    made.voters_written(node(1), voter_record(3, voters_of(3)), 0)
    nowhere = Listeners((("CONTROLLER", Endpoint("a\0b", 1)),))
    voters = VoterSet.of([Voter(key=ReplicaKey(NodeId(7)), listeners=nowhere)])
    with pytest.raises(ViolationError, match="leader 1 writes voters at 4 of whom 7 is at"):
        made.voters_written(node(1), voter_record(4, voters), 0)

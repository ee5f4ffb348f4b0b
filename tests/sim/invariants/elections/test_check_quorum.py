"""A leader that stays leader too long although nobody fetches from it is found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.core.leader.accumulation import Accumulation
from pykraft.core.leader.progress import Progress
from pykraft.core.state import Leader
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.elections.check_quorum import LeaderWithoutMajorityResigns
from pykraft.sim.machine.spoken import SliceAsked, Spoken
from pykraft.types import Epoch, Listeners, NodeId, Offset, OffsetAndEpoch, ReplicaKey, Voter, VoterSet
from tests.sim.invariants.fakes import BEFORE, node, view, voters_of, world


def leader(ms: int, *fetched_ms: int | None) -> Any:
    """Node 1 at this time, and when voters 2, 3, … fetched from it."""
    keys = [ReplicaKey(NodeId(node_id)) for node_id in range(1, len(fetched_ms) + 2)]
    progress = Progress(VoterSet.of(Voter(key=key, listeners=Listeners()) for key in keys))
    for key, at_ms in zip(keys[1:], fetched_ms, strict=True):
        progress.of(key).fetched_mono_ms = at_ms
    accumulation = Accumulation(epoch=Epoch(1), base_offset=Offset(0), linger_ms=0, size_bytes_max=1, waiting_max=1)
    state = Leader(
        epoch=Epoch(1),
        leader_id=NodeId(1),
        epoch_start_offset=Offset(0),
        granting_voters=(),
        progress=progress,
        accumulation=accumulation,
        check_quorum_deadline_ms=0,
        begin_quorum_deadline_ms=0,
    )
    return node(1, ms=ms, raft=SimpleNamespace(state=state))


def looked(voters: int, at: Any) -> None:
    made = LeaderWithoutMajorityResigns(world(voters))
    leads = view("leader", voters=voters_of(voters))
    made.changed(node(1, ms=100), BEFORE, leads)
    made.after_event(at, leads)


@pytest.mark.parametrize("fetched_ms", [(1_500, None), (1_500, 2_900), (None, 1_500)])
def test_a_leader_of_a_majority_is_accepted(fetched_ms: tuple[int | None, ...]) -> None:
    looked(3, leader(3_000, *fetched_ms))


def test_the_time_of_a_new_leader_counts_from_its_election_and_an_only_voter_leads_for_ever() -> None:
    looked(3, leader(1_600, None, None))
    looked(1, leader(99_000))
    LeaderWithoutMajorityResigns(world()).after_event(node(), view("follower"))


@pytest.mark.parametrize(("voters", "fetched_ms"), [(3, (1_400, None)), (5, (2_900, 1_400, None, None))])
def test_a_leader_of_a_minority_is_found(voters: int, fetched_ms: tuple[int | None, ...]) -> None:
    with pytest.raises(ViolationError, match="no majority has fetched from it for 1600 ms"):
        looked(voters, leader(3_000, *fetched_ms))


def test_a_voter_that_downloads_a_snapshot_counts_until_it_stops() -> None:
    where = world(3)
    made = LeaderWithoutMajorityResigns(where)
    leads = view("leader", voters=voters_of(3))
    made.changed(node(1, ms=100), BEFORE, leads)
    asked = SliceAsked(snapshot_id=OffsetAndEpoch(Offset(5), Epoch(1)), position=500)
    for target_id in (1, 9):  # There is no node 9.
        where.nodes = {1: node(1, ms=2_000)}
        made.before_send(node(2), Spoken(epoch=1, sliced=asked, target_id=target_id))
    where.clock.now_us = 3_000_000
    made.after_event(leader(3_000, None, None), leads)
    where.clock.now_us = 3_600_000
    with pytest.raises(ViolationError, match="no majority has fetched from it for 1600 ms"):
        made.after_event(leader(3_600, None, None), leads)


def test_a_voter_that_still_receives_an_answer_counts_as_long_as_enough_of_it_moves() -> None:
    where = world(3)
    made = LeaderWithoutMajorityResigns(where)
    leads = view("leader", voters=voters_of(3))
    made.changed(node(1, ms=100), BEFORE, leads)
    unsent = {2: 10**6, 3: 0}
    where.network.unsent_between = lambda source, target: unsent[target]
    for ms in range(200, 5_000, 500):
        where.clock.now_us = ms * 1_000
        made.after_event(leader(ms, None, None), leads)
        unsent[2] -= 20_000 if ms < 4_700 else 5
    where.clock.now_us = 9_000_000
    with pytest.raises(ViolationError, match="no majority has fetched"):
        made.after_event(leader(9_000, None, None), leads)

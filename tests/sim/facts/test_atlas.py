"""The atlas leaves a majority that can vote, and an intact copy of every record that may be committed.

The rule is compared with what it is for: however harm was allowed, every record of which a majority once had a copy
is held, whole, by somebody in each majority of the voters that are left to vote.
"""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykraft.core.quorum import majority_of
from pykraft.log.small_files.recovery_point import FILE_NAME as RECOVERY_POINT
from pykraft.sim.facts.members import format_directory
from pykraft.sim.machine.inode import Inode
from pykraft.sim.machine.node import Process, SimulatedNode
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import ClusterSettings, QuorumSettings, Scenario
from pykraft.types import Voter, VoterSet
from tests.sim.invariants.fakes import entry
from tests.sim.worlds import led_world, run_for, run_until


def world_of(voters: int, observers: int = 0) -> World:
    """Everybody runs, somebody leads, and everything is everywhere."""
    cluster = ClusterSettings(voters=(voters,), observers=(observers,))
    world = World(8, scenario=Scenario(cluster=cluster, quorum=QuorumSettings(append_linger_ms=(0,))))
    for node in world.nodes.values():
        node.start()
    run_until(world, lambda: all(world.facts.platters.end_offset(node) for node in world.nodes.values()))
    return world


def led_for_long() -> tuple[World, Process]:
    """Three voters that have some records, and get more."""
    world, leader = led_world()
    world.users.begin()
    run_until(world, lambda: all(world.facts.atlas.durable_point(node) > 5 for node in world.nodes.values()))
    return world, leader


def log_of(node: SimulatedNode) -> Inode:
    directory = node.disk.directory(node.config.partition_directory)
    assert directory is not None
    return directory.synced["0" * 20 + ".log"]


def rot(node: SimulatedNode) -> None:
    """A bit of the first batch flips."""
    log_of(node).rot(70, bytes([log_of(node).synced[70] ^ 1]))


@pytest.mark.parametrize(("voters", "minority"), [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2)])
def test_a_minority_of_the_voters_may_be_damaged_again_and_again(voters: int, minority: int) -> None:
    world = world_of(voters)
    for harmed, node in enumerate(world.facts.voters()):
        assert world.facts.atlas.may_damage(node) is (harmed < minority)
        if harmed < minority:
            rot(node)
            assert world.facts.atlas.may_damage(node), "it is harmed already"


def test_who_never_wrote_anything_cannot_do_without_the_others() -> None:
    cluster = ClusterSettings(voters=(3,), observers=(0,))
    world = World(8, scenario=Scenario(cluster=cluster, quorum=QuorumSettings(append_linger_ms=(0,))))
    first, *others = world.nodes.values()
    assert not world.facts.atlas.may_damage(first), "the others find new directories, and need it for their proof"
    for node in others:
        format_directory(node)
    assert world.facts.atlas.may_damage(first)


def test_somebody_else_must_be_able_to_win(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest log is an observer's, and the voter that counts the observer has a newer log than the third one."""
    world = world_of(3, observers=1)
    first, second, third, observer = world.nodes.values()
    of_three = world.facts.members.voters_of(first)
    joined = Voter(
        key=observer.key, listeners=observer.config.advertised_listeners, kraft_version=of_three.voters[0].kraft_version
    )
    of_four = VoterSet((*of_three.voters, joined))
    monkeypatch.setattr(world.facts.members, "voters_of", lambda node: of_four if node is second else of_three)
    end = second.ledger.end
    second.ledger.entries.append(entry(end.offset, epoch=end.epoch))
    assert [world.facts.atlas.may_damage(node) for node in (first, third)] == [True, True]
    observer.ledger.entries.append(entry(end.offset, epoch=end.epoch + 1))
    assert [world.facts.atlas.may_damage(node) for node in (first, third)] == [False, False]


def test_observers_promise_nothing() -> None:
    world = world_of(1, observers=2)
    for node in world.nodes.values():
        is_voter = node.node_id == 1
        assert world.facts.atlas.may_damage(node) is not is_voter
        assert world.facts.atlas.may_lose(node) is not is_voter
        if not is_voter:
            world.facts.atlas.wiped(node, 99)
            assert world.facts.atlas.may_return(node)


def test_a_copy_may_be_lost_only_while_a_majority_of_the_others_has_it() -> None:
    world, leader = led_world()
    run_until(world, lambda: all(world.facts.platters.end_offset(node) == 1 for node in world.nodes.values()))
    assert all(world.facts.atlas.may_lose(node) for node in world.nodes.values())
    other = next(node for node in world.nodes.values() if node.node_id != leader.node_id)
    other.kill()
    world.faults.start = lambda node: None  # type: ignore[method-assign]
    world.users.begin()
    run_until(world, lambda: (leader.host.status.high_watermark or 0) > 1)
    may_lose = {int(node.node_id): world.facts.atlas.may_lose(node) for node in world.nodes.values()}
    assert may_lose == {int(node.node_id): node is other for node in world.nodes.values()}


def test_who_is_in_quarantine_is_harmed_also_while_it_is_down() -> None:
    world, leader = led_for_long()
    node, third = [node for node in world.nodes.values() if node.node_id != leader.node_id]
    rot(node)
    node.lose_power()
    run_until(world, lambda: node.is_damaged)
    assert not world.facts.atlas.may_damage(third)
    node.kill()
    assert not world.facts.atlas.may_damage(third)
    run_until(world, lambda: node.process is not None and not node.is_damaged)
    run_for(world, 1_000)
    assert world.facts.atlas.may_damage(third)


def test_a_wiped_voter_waits_until_a_record_of_a_newer_epoch_is_committed() -> None:
    world, leader = led_world()
    node = world.nodes[leader.node_id]
    epoch = leader.host.status.epoch
    world.facts.atlas.wiped(node, epoch)
    assert world.facts.atlas.waiting == {int(node.node_id): epoch}
    assert not world.facts.atlas.may_return(node)
    assert not any(world.facts.atlas.may_damage(other) for other in world.nodes.values() if other is not node)
    world.faults.start = lambda node: None  # type: ignore[method-assign]
    node.lose_power()
    run_until(world, lambda: world.facts.committed.last_epoch > epoch)
    assert world.facts.atlas.may_return(node)
    assert not world.facts.atlas.waiting


def test_what_was_lost_is_forgiven_until_the_harm_is_gone() -> None:
    world, _ = led_for_long()
    node = world.nodes[1]
    assert not world.facts.atlas.has_lost(node)
    world.facts.atlas.lossy(node)
    rot(node)
    assert world.facts.atlas.has_lost(node)
    assert world.facts.atlas.has_lost(node)
    log_of(node).resize(0)
    log_of(node).sync()
    assert world.facts.atlas.has_lost(node), "this start is the one that finds out"
    assert not world.facts.atlas.has_lost(node)


def test_the_durable_recovery_point_is_read_from_the_platter() -> None:
    world, leader = led_for_long()
    node = world.nodes[leader.node_id]
    assert 0 < world.facts.atlas.durable_point(node) < world.facts.platters.end_offset(node), "it lags by one group"
    directory = node.disk.directory(node.config.partition_directory)
    assert directory is not None
    del directory.synced[RECOVERY_POINT]
    assert world.facts.atlas.durable_point(node) == 0


@settings(max_examples=300)
@given(st.data())
def test_what_is_allowed_leaves_every_committed_record_in_each_majority_that_can_vote(data: st.DataObject) -> None:
    """The counting argument alone, on small sets: copies, silent losses and noticed damage of one record."""
    voters = frozenset(range(data.draw(st.integers(1, 7))))
    majority = majority_of(len(voters))
    holding = set(voters)
    harmed: set[int] = set()
    for voter in data.draw(st.permutations(sorted(voters))):
        is_allowed = len(harmed | {voter}) <= len(voters) - majority
        if data.draw(st.booleans()):
            if is_allowed and len(holding - {voter}) >= majority:
                holding.discard(voter)
        elif is_allowed:
            harmed.add(voter)
    assert len(holding) >= majority
    able = voters - harmed
    assert len(able) >= majority
    assert all(set(quorum) & holding for quorum in combinations(sorted(able), majority))


def test_a_wiped_voter_waits_for_the_epoch_that_it_forgot_when_its_disk_was_emptied() -> None:
    world, leader = led_world()
    node = world.nodes[leader.node_id]
    world.facts.atlas.emptied(node, 7)
    world.facts.atlas.started(node)
    world.facts.atlas.wiped(node, 0)  # all that it knows since
    assert world.facts.atlas.waiting == {int(node.node_id): 7}

"""A node with an empty or older disk takes no part until its former votes and copies no longer count."""

from dataclasses import replace
from random import Random

import pytest

from pykraft.core.on import epoch_raise
from pykraft.errors import CorruptionError, StorageError
from pykraft.log.fs import make_directory
from pykraft.log.small_files.quorum_state import parse_quorum_state
from pykraft.sim.facts.facts import STRANGER_ID
from pykraft.sim.faults.stranger import StrangerFaults
from pykraft.sim.faults.wipe import EPOCHS_AHEAD_MAX, OLDER, BackupFaults, RestoreFaults, WipeFaults
from pykraft.sim.machine.inode import Inode
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import ClusterSettings, Pace, Scenario
from pykraft.types import Epoch, NodeId, ReplicaKey
from tests.sim.worlds import THREE, calm_world, harm_to, has_noted, led, led_world, run_until


def test_a_wiped_voter_comes_back_after_an_election_without_it_and_gets_everything() -> None:
    world, leader = led_world()
    world.users.begin()
    run_until(world, lambda: world.users.acknowledged > 20)
    harm = harm_to(world)
    assert WipeFaults(harm).kinds["wiped disk"]()
    (node,) = [node for node in world.nodes.values() if int(node.node_id) in world.facts.atlas.waiting]
    epoch = world.facts.atlas.waiting[int(node.node_id)]
    assert epoch >= leader.host.status.epoch
    assert world.facts.platters.end_offset(node) == 0
    assert has_noted(world, "is given an empty disk")
    run_until(world, lambda: node.process is not None)
    assert world.facts.committed.last_epoch > epoch
    goal = world.facts.committed.end_offset
    run_until(world, lambda: world.facts.platters.end_offset(node) >= goal)


def test_nobody_waits_for_an_epoch_that_only_a_stranger_told_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # As a node that has lost its leader.
    monkeypatch.setattr(epoch_raise, "_hears_leader", lambda _: False)
    world, leader = led_world()
    world.users.begin()
    run_until(world, lambda: world.users.acknowledged > 20)
    strangers = StrangerFaults(harm_to(world))
    strangers.use_dice(Random(1))
    far = Epoch(leader.host.status.epoch + 500)
    misled = world.nodes[leader.node_id % 3 + 1]
    key = ReplicaKey(NodeId(STRANGER_ID))
    strangers._present.ask(misled.node_id, strangers._vote(misled, key, far, pre_vote=False))
    run_until(world, lambda: misled.status is not None and misled.status.epoch >= far)
    WipeFaults(harm_to(world))._exchange(misled)
    assert leader.host.status.epoch <= world.facts.atlas.waiting[int(misled.node_id)] < far
    run_until(world, lambda: misled.process is not None)


def test_one_at_a_time_and_never_without_a_majority_beside() -> None:
    world, _ = led_world()
    family = WipeFaults(harm_to(world))
    assert family.kinds["wiped disk"]()
    assert not family.kinds["wiped disk"]()
    for voters in (1, 2):
        small = World(1, scenario=Scenario(cluster=ClusterSettings(voters=(voters,), observers=(0,))))
        assert not WipeFaults(harm_to(small)).kinds["wiped disk"]()


def test_a_node_that_never_ran_is_wiped_as_well() -> None:
    world = calm_world()
    harm = harm_to(world)
    assert WipeFaults(harm).kinds["wiped disk"]()
    assert harm.states["wiped disk"] == {"down": 1}


def test_whose_snapshot_is_damaged_gets_an_empty_disk_and_nobody_else_does() -> None:
    world, leader = led_world()
    faults, node = WipeFaults(harm_to(world)), world.nodes[leader.node_id % 3 + 1]
    run_until(world, lambda: world.facts.platters.end_offset(node) > 0)
    directory = node.config.partition_directory
    for name, is_damage in (("recovery-point", True), (f"{5:020}-{1:010}.checkpoint", False)):
        error = StorageError(directory / name, "cannot be read")
        if is_damage:
            error = CorruptionError(directory / name, position=0, expected="one thing", found="another")
        faults.failed(node, error)
        assert world.facts.platters.end_offset(node) > 0
    node.kill()
    snapshot = directory / f"{5:020}-{1:010}.checkpoint"
    faults.failed(node, CorruptionError(snapshot, position=0, expected="one thing", found="another"))
    assert world.facts.platters.end_offset(node) == 0
    assert not world.facts.atlas.may_return(node)


def test_the_start_after_a_disk_was_emptied_may_be_killed_and_the_power_goes_later() -> None:
    world, _ = led(World(8, scenario=replace(THREE, pace=Pace(emptied_kill_probability=1.0))))
    world.users.begin()
    run_until(world, lambda: world.users.acknowledged > 20)
    harm = harm_to(world)
    assert WipeFaults(harm).kinds["emptied disk"]()
    run_until(world, lambda: has_noted(world, "loses power after it was killed in its first start"))
    assert has_noted(world, "killed while")
    run_until(world, lambda: all(node.process is not None for node in world.nodes.values()))


def test_a_node_with_an_older_quorum_state_comes_back_with_its_whole_log() -> None:
    world, leader = led_world()
    world.users.begin()
    run_until(world, lambda: world.users.acknowledged > 20)
    harm = harm_to(world)
    run_until(world, RestoreFaults(harm).kinds[OLDER])
    (node,) = [node for node in world.nodes.values() if int(node.node_id) in world.facts.atlas.waiting]
    epoch, end_offset = world.facts.atlas.waiting[int(node.node_id)], world.facts.platters.end_offset(node)
    assert epoch >= leader.host.status.epoch
    assert end_offset > 0
    assert has_noted(world, "is given a quorum-state of epoch")
    run_until(world, lambda: node.process is not None)
    assert world.facts.committed.last_epoch > epoch
    assert node.host is not None
    assert node.host.status.log_end_offset >= end_offset
    assert not node.is_damaged


def test_the_copy_may_lack_other_files() -> None:
    for seed in range(20):
        world, _ = led_world()
        harm = harm_to(world)
        harm.rng = Random(seed)
        run_until(world, RestoreFaults(harm).kinds[OLDER])
        (node,) = [node for node in world.nodes.values() if node.process is None]
        directory = node.disk.directory(node.config.partition_directory)
        assert directory is not None
        stored = parse_quorum_state(node.config.partition_directory, bytes(directory.synced["quorum-state"].synced))
        assert stored.election.voted is None
        assert "quorum-state.check" not in directory.synced
        if "recovery-point" not in directory.synced and "leader-epoch-checkpoint" not in directory.synced:
            return
    raise AssertionError("some copies have neither")


def test_nobody_restores_a_file_of_a_node_that_is_down_damaged_or_needed() -> None:
    assert not RestoreFaults(harm_to(calm_world())).kinds[OLDER]()
    world, _ = led_world()
    run_until(world, lambda: all(node.process is not None and node.process.is_idle for node in world.nodes.values()))
    for node in world.nodes.values():
        rotten = Inode()
        rotten.write(b"1", 0)
        rotten.sync()
        rotten.rot(0, b"2")
        make_directory(node.disk, node.config.log_dir)
        directory = node.disk.directory(node.config.log_dir)
        assert directory is not None
        directory.change(("rotten", rotten))
        directory.sync()
    assert not RestoreFaults(harm_to(world)).kinds[OLDER]()
    small = World(1, scenario=Scenario(cluster=ClusterSettings(voters=(1,), observers=(0,))))
    for node in small.nodes.values():
        node.start()
    run_until(small, lambda: all(node.process is not None and node.process.is_idle for node in small.nodes.values()))
    assert not RestoreFaults(harm_to(small)).kinds[OLDER]()


def test_nobody_restores_a_file_of_a_node_that_a_stranger_moved_far_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    world, _ = led_world()
    run_until(world, lambda: all(node.process is not None and node.process.is_idle for node in world.nodes.values()))
    harm, election = harm_to(world), world.facts.platters.election
    moved = harm.any_node()
    monkeypatch.setattr(harm, "any_node", lambda: moved)
    for ahead, is_restored in ((EPOCHS_AHEAD_MAX + 1, False), (EPOCHS_AHEAD_MAX, True)):
        others_epoch = max(election(each).epoch for each in world.nodes.values() if each is not moved)
        far = replace(election(moved), epoch=others_epoch + ahead)
        monkeypatch.setattr(
            type(world.facts.platters), "election", lambda _, node, far=far: far if node is moved else election(node)
        )
        assert RestoreFaults(harm).kinds[OLDER]() is is_restored


KIND = "older directory"


def made(world: World, seed: int = 1) -> BackupFaults:
    faults = BackupFaults(harm_to(world))
    faults.use_dice(Random(seed))
    return faults


def test_a_voter_with_an_older_directory_catches_up_and_the_leader_says_so() -> None:
    world, leader = led_world()
    world.users.begin()
    faults = made(world)
    run_until(world, lambda: world.users.acknowledged > 20)
    run_until(world, faults.kinds[KIND])
    assert faults._copies
    goal = world.users.acknowledged + 200
    run_until(world, lambda: world.users.acknowledged > goal)
    follower = next(node for node in world.facts.voters() if node.node_id != leader.node_id)
    run_until(world, lambda: int(follower.node_id) in faults._copies and faults._put_back(follower))
    assert int(follower.node_id) in world.facts.claims.older_ids
    assert follower.process is None
    run_until(world, lambda: has_noted(world, f"voter {follower.node_id} fetches from offset"))
    goal = world.users.acknowledged + 20
    run_until(world, lambda: world.users.acknowledged > goal)
    faults.stop()


def test_decisions_copy_and_put_back() -> None:
    world, _ = led_world()
    world.users.begin()
    faults = made(world)
    run_until(world, lambda: faults.kinds[KIND]() and bool(world.facts.claims.older_ids), limit_us=20_000_000)
    assert has_noted(world, "is given an older copy of its directory")


def test_without_a_copy_or_a_running_node_nothing_is_put_back() -> None:
    world, _ = led_world()
    faults = made(world)
    node = world.nodes[1]
    assert not faults._put_back(node)
    assert not made(calm_world()).kinds[KIND]()

"""An older quorum-state: the node waits until its lost votes no longer count, and keeps every record."""

from __future__ import annotations

from random import Random

from pykraft.log.fs import make_directory
from pykraft.log.small_files.quorum_state import parse_quorum_state
from pykraft.sim.faults.restore import OLDER, RestoreFaults
from pykraft.sim.machine.inode import Inode
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import ClusterSettings, Scenario
from tests.sim.faults.worlds import harm_to, told
from tests.sim.worlds import calm_world, led_world, run_until


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
    assert told(world, "is given a quorum-state of epoch")
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

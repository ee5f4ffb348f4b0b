"""Disk faults stop a node, cost time, or are found and repaired from others, as their names say."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from pykraft.sim.faults.disk import PART_SYNC_ERROR, DiskFaults, SilentFaults, UnreadableFaults
from pykraft.sim.machine import disk
from pykraft.sim.machine.node import Process, SimulatedNode
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import ClusterSettings, Pace, Scenario, SnapshotSettings
from pykraft.snapshot.files import checkpoint_path
from tests.sim.worlds import SEED_OF_THREE, THREE, harm_to, has_noted, led, led_world, run_for, run_until, started


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (disk.READ_ERROR, "cannot read: Input/output error"),
        (disk.WRITE_ERROR, "cannot write: Input/output error"),
        (disk.SYNC_ERROR, "cannot sync: Input/output error"),
        (disk.DISK_FULL, "cannot write: No space left on device"),
    ],
)
def test_a_node_stops_with_the_error_of_its_disk_and_starts_again(kind: str, text: str) -> None:
    world, _ = led_world()
    world.users.begin()
    harm = harm_to(world)
    family = DiskFaults(harm)
    for _ in range(9):
        family.kinds[kind]()
    if kind == disk.READ_ERROR:
        for node in world.nodes.values():
            node.kill()
    run_until(world, lambda: has_noted(world, text))
    assert harm.counts[kind] >= 1
    family.stop()
    run_until(world, lambda: len(world.facts.hosts()) == 3)


def test_what_is_asked_of_a_disk_that_stalls_is_done_later() -> None:
    world, leader = led_world()
    harm = harm_to(world)
    family = DiskFaults(harm)
    for _ in range(20):
        assert family.kinds["disk stalled"]()
    node = world.nodes[leader.node_id]
    until_us = node.disk.io_errors.stalled_until_us
    assert until_us > world.clock.now_us
    end_offset = world.facts.platters.end_offset(node)
    leader.host.propose([b"value"], epoch=leader.host.status.epoch, now=node.clock.instant, on_outcome=lambda _: None)
    run_until(world, lambda: world.facts.platters.end_offset(node) > end_offset)
    assert world.clock.now_us >= until_us
    family.stop()
    assert node.disk.io_errors.stalled_until_us == 0


def test_a_node_with_a_stalled_disk_starts_later() -> None:
    world, leader = led_world()
    node = world.nodes[leader.node_id]
    node.disk.io_errors.stalled_until_us = until_us = world.clock.now_us + 400_000
    node.kill()
    run_until(world, lambda: node.process is not None)
    assert world.clock.now_us >= until_us


def test_a_sync_of_a_fetched_snapshot_fails_once_and_no_other_sync_does() -> None:
    scenario = Scenario(
        snapshots=SnapshotSettings(records_between=(5,)), cluster=ClusterSettings(voters=(3,), observers=(0,))
    )
    world = World(1, scenario=scenario)
    for node in world.nodes.values():
        node.start()
    harm = harm_to(world)
    family = DiskFaults(harm)
    assert family.kinds[PART_SYNC_ERROR]()
    assert not all(family.kinds[PART_SYNC_ERROR]() for _ in range(20))
    (node,) = [node for node in world.nodes.values() if node.disk.io_errors.is_planned][:1]
    for name in ("quorum-state", f"{5:020}-{1:010}.checkpoint.part", f"{5:020}-{1:010}.checkpoint"):
        node.disk.io_errors.before_sync(Path("/disk") / name)
    with pytest.raises(disk.DiskError):
        node.disk.io_errors.before_sync(Path(f"/disk/{5:020}-{1:010}-{1:010}.checkpoint.part"))
    assert harm.counts[PART_SYNC_ERROR] == 1
    run_until(world, lambda: not node.disk.io_errors.is_planned)


SNAPSHOT = Path("00000000000000000010-0000000001.checkpoint")


def made(world: World, seed: int = 1) -> UnreadableFaults:
    faults = UnreadableFaults(harm_to(world))
    faults.use_dice(Random(seed))
    return faults


def is_unreadable(world: World, node_id: int, path: Path = SNAPSHOT) -> bool:
    try:
        for _ in range(4):
            world.nodes[node_id].disk.io_errors.before_read(path)
    except disk.SnapshotDiskError:
        return True
    return False


@pytest.mark.parametrize("seed", range(4))
def test_whole_snapshots_of_running_nodes_cannot_be_read_until_it_stops(seed: int) -> None:
    world = started(World(SEED_OF_THREE, scenario=replace(THREE, snapshots=SnapshotSettings(records_between=(10,)))))
    faults = made(world, seed)
    assert faults.kinds[disk.SNAPSHOT_UNREADABLE]()
    hit = [node_id for node_id in world.nodes if is_unreadable(world, node_id)]
    assert len(hit) in {1, 3}
    assert world.facts.counts[disk.SNAPSHOT_UNREADABLE] == len(hit), "each is counted once"
    for other in ("00000000000000000010-0000000001.checkpoint.part", "00000000000000000000.log"):
        assert not is_unreadable(world, hit[0], Path(other))
    world.nodes[hit[0]].kill()
    assert not is_unreadable(world, hit[0]), "a node that starts reads its newest snapshot"
    faults.stop()
    assert not any(is_unreadable(world, node_id) for node_id in world.nodes)


def busy_world() -> tuple[World, Process]:
    """Some records are everywhere, and more come."""
    world, leader = led_world()
    world.users.begin()
    run_until(world, lambda: all(world.facts.atlas.durable_point(node) > 5 for node in world.nodes.values()))
    return world, leader


def rotten(world: World) -> list[SimulatedNode]:
    return [node for node in world.nodes.values() if node.disk.is_rotten]


def test_bits_flip_in_a_minority_and_are_mended() -> None:
    world, _ = busy_world()
    harm = harm_to(world)
    family = SilentFaults(harm)
    for _ in range(30):
        family.kinds["bit flip"]()
    (node,) = rotten(world)
    assert harm.counts["bit flip"] >= 1
    assert has_noted(world, "has a bit flipped in ")
    if node.process is not None:
        node.lose_power()
    acknowledged = world.users.acknowledged
    run_until(world, lambda: not node.disk.is_rotten and node.process is not None and not node.is_damaged)
    run_until(world, lambda: world.users.acknowledged > acknowledged)


def test_nothing_flips_where_there_is_no_other_copy() -> None:
    world = World(1, scenario=Scenario(cluster=ClusterSettings(voters=(1,), observers=(0,))))
    world.nodes[1].start()
    world.users.begin()
    run_for(world, 500_000)
    harm = harm_to(world)
    assert not any(SilentFaults(harm).kinds["bit flip"]() for _ in range(20))
    assert not harm.counts


@pytest.mark.parametrize("kind", ["lost write", "misdirected write"])
def test_a_write_is_not_where_it_was_said_to_be(kind: str) -> None:
    world, _ = busy_world()
    harm = harm_to(world)
    family = SilentFaults(harm)
    for _ in range(9):
        family.kinds[kind]()
    run_until(world, lambda: harm.counts[kind] == 1)
    assert len(rotten(world)) == 1
    family.stop()
    assert all(node.disk.liar is None for node in world.nodes.values())
    (node,) = rotten(world)
    assert node.process is not None
    node.lose_power()
    run_until(world, lambda: not node.disk.is_rotten and node.process is not None and not node.is_damaged)


def test_a_disk_has_one_lie_in_mind_at_a_time() -> None:
    world, _ = led_world()
    family = SilentFaults(harm_to(world))
    planned = sum(family.kinds["lost write"]() for _ in range(30))
    assert planned == len(world.nodes)


def test_a_lost_sector_costs_the_vote_and_is_fetched_again() -> None:
    world, _ = busy_world()
    run_until(world, lambda: all(world.facts.platters.end_offset(node) > 200 for node in world.nodes.values()))
    harm = harm_to(world)
    family = SilentFaults(harm)
    run_until(world, family.kinds["lost sector"])
    (node,) = rotten(world)
    for _ in range(10):
        family.kinds["lost sector"]()
    assert rotten(world) == [node]
    assert has_noted(world, "cannot read page ")
    node.lose_power()
    run_until(world, lambda: node.is_damaged)
    run_until(world, lambda: not node.disk.is_rotten and node.process is not None and not node.is_damaged)


def test_bits_flip_in_the_heads_of_snapshots_that_are_not_the_newest() -> None:
    snapshots = SnapshotSettings(records_between=(20,), retention_size_bytes_max=(60_000,))
    world, _ = led(World(8, scenario=replace(THREE, snapshots=snapshots, pace=Pace(head_flip_probability=1.0))))
    harm = harm_to(world)
    family = SilentFaults(harm)
    assert not any(rotten(world))
    world.users.begin()
    run_until(world, lambda: all(len(world.facts.platters.snapshots(node)) > 1 for node in world.nodes.values()))
    run_until(world, lambda: family.kinds["bit flip"]() and bool(has_noted(world, ".checkpoint at position")))
    (node,) = rotten(world)
    directory = node.disk.directory(node.config.partition_directory)
    assert directory is not None
    harmed = {name for name, inode in directory.synced.items() if inode.is_rotten}
    newest = checkpoint_path(Path(), world.facts.platters.snapshots(node)[-1]).name
    assert harmed
    assert all(name.endswith(".checkpoint") and name != newest for name in harmed)


@pytest.mark.parametrize("has_promised_more", [False, True])
def test_what_is_promised_behind_a_lie_is_lost_only_if_others_hold_it(has_promised_more: bool) -> None:
    """Seed 265: a voter whose disk had lied promised more, which a third one did not have; then the power went."""
    world, _ = busy_world()
    harm = harm_to(world)
    family = SilentFaults(harm)
    for _ in range(9):
        family.kinds["lost write"]()
    run_until(world, lambda: harm.counts["lost write"] == 1)
    family.stop()
    (node,) = rotten(world)
    if has_promised_more:
        third = next(
            each for each in world.nodes.values() if each is not node and each.status and not each.status.leads
        )
        third.kill()
        before = world.facts.platters.end_offset(node)
        run_until(world, lambda: world.facts.platters.end_offset(node) > before)
        third.disk.lose_power()
    world.watch.power_goes(node)
    assert node.disk.is_rotten is not has_promised_more

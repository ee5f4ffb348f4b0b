"""Processes that end, pause, restart, leave, or have an old version or another time: faults do what they say."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import decode_request_header
from pykraft.protocol.messages import ApiKey
from pykraft.sim.faults import Faults
from pykraft.sim.faults.process import ClockFaults, ProcessFaults, VersionFaults
from pykraft.sim.machine.clock import WALL_START_MS
from pykraft.sim.machine.dialect import KAFKA_3_8, KAFKA_3_9
from pykraft.sim.machine.network import FRAME_LENGTH_SIZE_BYTES
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import SNAPSHOT, Course, SnapshotSettings
from pykraft.types import Buffer
from tests.sim.worlds import THREE, calm_world, harm_to, has_noted, led_world, run_for, run_until, started_world


def faults_of(world: World) -> Faults:
    return world.faults


def running(world: World) -> int:
    return len(world.facts.hosts())


@pytest.mark.parametrize("kind", ["kill", "power loss"])
def test_one_node_goes_down_and_comes_back(kind: str) -> None:
    world = started_world()
    harm = harm_to(world)
    assert ProcessFaults(harm).kinds[kind]()
    assert running(world) == 2
    assert harm.counts == {kind: 1}
    run_until(world, lambda: running(world) == 3)


@pytest.mark.parametrize(
    "kind", ["kill", "power loss", "kill then power loss", "restart storm", "pause", "shutdown", "all down", "resign"]
)
def test_nodes_that_are_down_are_left_alone(kind: str) -> None:
    harm = harm_to(calm_world())
    assert not ProcessFaults(harm).kinds[kind]()
    assert not harm.counts


@pytest.mark.parametrize(
    ("kind", "text"), [("kill while writing", "killed"), ("power loss while writing", "power lost")]
)
def test_a_node_ends_in_the_middle_of_a_write_and_only_that_is_counted(kind: str, text: str) -> None:
    world, _ = led_world()
    world.users.begin()
    assert ProcessFaults(harm_to(world)).kinds[kind]()
    assert not faults_of(world).counts
    run_until(world, lambda: has_noted(world, f"{text} while"))
    assert faults_of(world).counts[kind] == 1


def test_who_ends_before_it_has_recovered_is_recovering() -> None:
    world = calm_world()
    world.nodes[1].disk.interrupt_within(2, loses_power=False)
    world.nodes[1].start()
    assert faults_of(world).states == {"kill while writing": {"recovering": 1}}


def test_power_goes_after_a_kill_before_anything_more_was_synced() -> None:
    world = started_world()
    harm = harm_to(world)
    assert ProcessFaults(harm).kinds["kill then power loss"]()
    run_until(world, lambda: harm.counts["kill then power loss"] == 1)
    run_until(world, lambda: running(world) == 3)


def test_a_storm_starts_a_node_again_and_again() -> None:
    world = started_world()
    assert ProcessFaults(harm_to(world)).kinds["restart storm"]()
    run_for(world, 1_000_000)
    assert sum("starts" in line for line in world.trace.lines) >= 3 + 3
    assert running(world) == 3


def test_a_process_that_stands_still_takes_everything_late() -> None:
    world, _ = led_world()
    harm = harm_to(world)
    assert ProcessFaults(harm).kinds["pause"]()
    (node,) = [node for node in world.nodes.values() if node.process is not None and node.process.is_paused]
    run_until(world, lambda: node.process is not None and not node.process.is_paused)
    assert harm.states["pause"] in ({"leader": 1}, {"follower": 1})


@pytest.mark.parametrize("kind", ["all down", "all killed"])
def test_all_go_down_at_once(kind: str) -> None:
    world = started_world()
    harm = harm_to(world)
    assert ProcessFaults(harm).kinds[kind]()
    assert running(world) == 0
    assert sum(harm.states[kind].values()) == 3
    run_until(world, lambda: running(world) == 3)


def test_all_go_down_right_after_a_commit() -> None:
    world, _ = led_world()
    family = ProcessFaults(harm_to(world))
    assert family.kinds["all down after a commit"]()
    assert not family.kinds["all down after a commit"](), "it is planned already"
    family.committed()
    run_for(world, 1)
    assert running(world) == 0


def test_what_was_prepared_is_taken_back() -> None:
    world, _ = led_world()
    family = ProcessFaults(harm_to(world))
    family.kinds["all down after a commit"]()
    family.kinds["kill while writing"]()
    family.stop()
    family.committed()
    world.users.begin()
    run_for(world, 200_000)
    assert running(world) == 3


def test_the_leader_resigns() -> None:
    world, leader = led_world()
    assert ProcessFaults(harm_to(world)).kinds["resign"]()
    assert leader.host.status.role == "resigned"
    run_until(world, lambda: world.facts.newest_leader() is not None)


def test_a_node_leaves_and_comes_back() -> None:
    world, _ = led_world()
    assert ProcessFaults(harm_to(world)).kinds["shutdown"]()
    run_until(world, lambda: running(world) == 2)
    run_until(world, lambda: running(world) == 3)


def test_the_leadership_is_to_go_to_a_voter_that_was_just_killed() -> None:
    world, leader = led_world()
    harm = harm_to(world)
    family = ProcessFaults(harm)
    others = [node for node in world.nodes.values() if node.process is not leader]
    assert family.kinds["transfer to the dead"]()
    (dead,) = [node for node in others if node.process is None]
    assert harm.counts["transfer to the dead"] == 1
    for other in others:
        if other is not dead:
            other.kill()
    assert not family.kinds["transfer to the dead"](), "all others are down already"


def lived(seed: int, probability: float) -> World:
    course = Course(faults_us=2_000_000, first_kill_probability=probability)
    world = World(seed, scenario=replace(THREE, course=course, faults={"heal": 1.0}))
    world.run()
    return world


def test_it_happens_to_each_node_that_it_is_drawn_for() -> None:
    world = lived(3, 1.0)
    assert world.faults.counts["kill then power loss"] == 3
    assert world.faults.counts["kill while writing"] > 0


def test_a_node_is_replaced_by_an_older_program_and_upgraded_again() -> None:
    world = started_world()
    harm = harm_to(world)
    family = VersionFaults(harm)
    for _ in range(9):
        assert family.kinds["old version"]()
    assert not world.facts.members.has_pre_votes
    assert has_noted(world, "is replaced by a program that speaks like Kafka 3.")
    assert has_noted(world, "is upgraded")
    assert harm.counts["old version"] >= 3
    run_until(world, lambda: world.facts.newest_leader() is not None and len(world.facts.hosts()) == 3)


def test_old_nodes_ask_in_old_words() -> None:
    world = calm_world()
    versions: set[int] = set()
    send = world.network.send

    def listen(connection: ConnectionId, parts: Sequence[Buffer]) -> None:
        frame = b"".join(parts)[FRAME_LENGTH_SIZE_BYTES:]
        if frame.startswith(ApiKey.VOTE.to_bytes(2, "big")):
            versions.add(decode_request_header(frame).api_version)
        send(connection, parts)

    world.network.send = listen  # type: ignore[method-assign]
    for node, dialect in zip(world.nodes.values(), (KAFKA_3_8, KAFKA_3_9, None), strict=True):
        node.dialect = dialect
        node.start()
    run_until(world, lambda: world.facts.newest_leader() is not None)
    assert versions
    assert max(versions) <= 1


def test_a_clock_is_fast_or_slow_until_it_is_set_right() -> None:
    world = started_world()
    harm = harm_to(world)
    family = ClockFaults(harm)
    for _ in range(9):
        assert family.kinds["clock skew"]()
    run_for(world, 1_000_000)
    true_ms = world.clock.instant.mono_ms
    shown = [node.clock.instant.mono_ms for node in world.nodes.values()]
    assert any(abs(each - true_ms) > 5 for each in shown)
    family.stop()
    run_for(world, 1_000_000)
    assert [node.clock.instant.mono_ms - each for node, each in zip(world.nodes.values(), shown, strict=True)] == (
        [world.clock.instant.mono_ms - true_ms] * 3
    )
    assert harm.counts["clock skew"] == 9


def test_wall_clocks_jump_both_ways() -> None:
    world = calm_world()
    family = ClockFaults(harm_to(world))
    shown = set()
    for _ in range(30):
        assert family.kinds["clock jump"]()
        shown |= {node.clock.instant.wall_ms for node in world.nodes.values()}
    assert min(shown) < WALL_START_MS < max(shown)
    assert {node.clock.instant.mono_ms for node in world.nodes.values()} == {0}
    family.stop()
    assert {node.clock.instant.wall_ms for node in world.nodes.values()} == {WALL_START_MS}


OFTEN = SnapshotSettings(
    records_between=(20,), retention_size_bytes_max=(0,), clean_interval_ms=(50,), slice_size_bytes_max=(500,)
)


def busy_world() -> World:
    world = World(8, scenario=replace(THREE, snapshots=OFTEN))
    for node in world.nodes.values():
        node.start()
    world.users.begin()
    run_until(world, lambda: world.faults.counts["log cleaned"] > 0)
    return world


def fall_behind(world: World, node_id: int) -> None:
    """The others clean their logs beyond the end of this one, which hears of nothing meanwhile."""
    others = [other for other in world.nodes if other != node_id]
    for other in others:
        world.network.cut(node_id, other)
        world.network.cut(other, node_id)
    host = world.nodes[node_id].host
    assert host is not None
    end_offset = host.status.log_end_offset
    run_until(world, lambda: all(world.nodes[other].ledger.begin.offset > end_offset + 50 for other in others))
    world.network.heal()


@pytest.mark.parametrize("kind", SNAPSHOT)
def test_a_process_ends_in_it(kind: str) -> None:
    world = busy_world()
    faults, tries = world.faults.snapshot, 0
    while not world.faults.counts[kind]:
        tries += 1
        for _ in range(6):
            assert faults.kinds[kind]()
        if kind in SNAPSHOT[1:3]:
            fall_behind(world, 1)
        wait_us = world.clock.now_us + 500_000
        while world.clock.now_us < wait_us and not world.faults.counts[kind]:
            world.turn()
        run_until(world, lambda: all(node.host is not None for node in world.nodes.values()))
    assert tries < 10


def test_what_was_prepared_around_snapshots_is_taken_back() -> None:
    world = busy_world()
    faults = world.faults.snapshot
    for act in faults.kinds.values():
        assert act()
    faults.stop()
    assert all(node.disk.on_operation is None for node in world.nodes.values())

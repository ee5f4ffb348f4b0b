"""The application applies what it gets and answers the reads of its own process."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from pykraft.sim.clients.application import Application
from pykraft.sim.facts.history import READ, WRITE, value_of
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import SnapshotSettings
from pykraft.types import Epoch
from tests.sim.invariants.fakes import batch, operation
from tests.sim.worlds import THREE, calm_world, led_world, run_until


def application_of(world: World) -> Application:
    return Application(world.facts, world.witness, world.nodes[1], snapshot_dice=Random(1), asking_dice=Random(1))


def test_a_read_finds_what_was_written_before_it() -> None:
    world = calm_world()
    application = application_of(world)
    written, asked, later = value_of(4, WRITE, 9), value_of(8, READ, 0), value_of(12, WRITE, 0)
    reading = operation(1, asked)
    world.watch.proposed(operation(2, written, later, asked))
    application.reads[asked] = reading
    application.on_commit([batch(0), batch(1, written, asked, later)])
    assert (reading.read, reading.read_us) == (4, 0)
    assert not application.reads


def test_the_world_hears_of_leaders() -> None:
    world, leader = led_world()
    application_of(world).on_leader_change(Epoch(leader.host.status.epoch + 1), None)
    assert f"hears of epoch {leader.host.status.epoch + 1}" in world.trace.lines[-1]


def test_a_process_that_starts_again_loads_its_newest_snapshot_and_goes_on_behind_it() -> None:
    snapshots = SnapshotSettings(records_between=(20,), given_up_probability=0)
    world = World(8, scenario=replace(THREE, snapshots=snapshots))
    for node in world.nodes.values():
        node.start()
    world.users.begin()
    node = world.nodes[1]
    run_until(world, lambda: len(world.facts.platters.snapshots(node)) > 2)
    node.kill()
    newest = world.facts.platters.snapshots(node)[-1]
    node.start()
    run_until(world, lambda: world.faults.counts["snapshot loaded"] > 0)
    assert world.facts.platters.snapshots(node)[-1] == newest
    run_until(world, lambda: world.facts.platters.snapshots(node)[-1].offset > newest.offset)

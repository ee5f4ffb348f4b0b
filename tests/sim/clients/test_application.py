"""The application applies what it gets and answers the reads of its own process.

Applications that are asked for a snapshot write the state at that offset, while deliveries are held.

A snapshot written in pieces is frozen after the last one, or closed once, whatever goes wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import cast

from pykraft.client.serde import bytes_serde
from pykraft.host.snapshots.creation import NewSnapshot
from pykraft.sim.clients.application import Application, starts_of, write_carelessly, write_pieces
from pykraft.sim.facts.application_state import ApplicationState
from pykraft.sim.facts.history import READ, WRITE, value_of
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import SnapshotSettings
from pykraft.snapshot.catalog import Reason
from pykraft.snapshot.reader import SnapshotReader
from pykraft.types import Epoch
from tests.sim.clients.test_snapshot_generator import lived
from tests.sim.invariants.fakes import batch, operation
from tests.sim.worlds import THREE, calm_world, led_world, run_until


def application_of(world: World) -> Application:
    return Application(world.facts, world.watch, world.nodes[1], snapshot_dice=Random(1), asking_dice=Random(1))


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


ASKED = SnapshotSettings(records_between=(20,), asked_probability=1, pieces_max=3, retention_size_bytes_max=(0,))


def saved_states(world: World) -> Iterator[tuple[int, ApplicationState]]:
    """Every snapshot that is there now: where it ends, and the state in it."""
    for node in world.nodes.values():
        for snapshot_id in world.facts.platters.snapshots(node):
            reader = SnapshotReader.of(node.disk, node.config.partition_directory, snapshot_id, bytes_serde)
            yield snapshot_id.offset, ApplicationState.of([value for batch in reader for value in batch.records])
            reader.close()


def test_snapshots_are_asked_for_and_are_what_their_names_say() -> None:
    world = lived(replace(ASKED, clean_interval_ms=(50,)))
    assert world.faults.counts["snapshot taken"] > 6
    assert any("was asked for a snapshot, and has saved it at" in line for line in world.trace.lines)
    found = [*saved_states(world)]
    assert len(found) >= len(world.nodes)
    for offset, state in found:
        assert state.entries[-1].end_offset == offset
        assert [entry.base_offset for entry in state.entries] == [0, *(one.end_offset for one in state.entries[:-1])]


def test_some_are_asked_and_others_take_them_by_themselves() -> None:
    world = lived(replace(ASKED, asked_probability=0.4))
    asked = sum("was asked for a snapshot" in line for line in world.trace.lines)
    assert 0 < asked < world.faults.counts["snapshot taken"]


def test_a_schedule_counts_bytes_and_time() -> None:
    world = lived(ASKED)
    reasons = {reason for reason in Reason for line in world.trace.lines if reason.value in line}
    assert Reason.SIZE in reasons


class Slow:
    """Remembers who waits for what."""

    def __init__(self) -> None:
        self.written: list[Sequence[bytes]] = []
        self.waiting: Callable[[Exception | None], None] | None = None
        self.frozen: Callable[[int | Exception], None] | None = None
        self.closings = 0

    def append(self, piece: Sequence[bytes], then: Callable[[Exception | None], None]) -> None:
        self.written.append(piece)
        self.waiting = then

    def freeze(self, then: Callable[[int | Exception], None]) -> None:
        self.frozen = then

    def close(self) -> None:
        self.closings += 1


def begun(*pieces: Sequence[bytes], gives_up: bool = False) -> tuple[Slow, list[int | Exception | None]]:
    taken, outcomes = Slow(), list[int | Exception | None]()
    write_pieces(cast(NewSnapshot, taken), iter(pieces), outcomes.append, lambda: gives_up)
    return taken, outcomes


def answer(taken: Slow, problem: Exception | None = None) -> None:
    assert taken.waiting is not None
    taken.waiting(problem)


def test_pieces_cover_all_records() -> None:
    assert [*starts_of(7, 3)] == [0, 3, 6]
    assert [*starts_of(1, 5)] == [0]
    assert [*starts_of(0, 5)] == []


def test_each_piece_waits_for_the_one_before_and_then_it_is_frozen() -> None:
    taken, outcomes = begun([b"a"], [b"b"])
    assert taken.written == [[b"a"]]
    answer(taken)
    assert taken.written == [[b"a"], [b"b"]]
    assert taken.frozen is None
    answer(taken)
    assert taken.frozen is not None
    taken.frozen(123)
    assert (outcomes, taken.closings) == ([123], 0)


def test_a_piece_that_fails_ends_it() -> None:
    taken, outcomes = begun([b"a"], [b"b"])
    problem = OSError("no space")
    answer(taken, problem)
    assert (taken.written, outcomes, taken.closings, taken.frozen) == ([[b"a"]], [problem], 1, None)


def test_it_may_be_given_up_at_the_end() -> None:
    taken, outcomes = begun([b"a"], gives_up=True)
    answer(taken)
    assert (outcomes, taken.closings, taken.frozen) == ([None], 1, None)


def test_a_writer_that_ignores_errors_cannot_freeze_its_snapshot() -> None:
    taken, outcomes = Slow(), list[int | Exception | None]()
    write_carelessly(cast(NewSnapshot, taken), iter([[b"a"], [b"b"]]), outcomes.append)
    problem = ValueError("empty")
    answer(taken, problem)
    answer(taken)
    assert (taken.written, outcomes) == ([[b"a"], [b"b"]], [])
    assert taken.frozen is not None
    taken.frozen(problem)
    assert (outcomes, taken.closings) == ([problem], 1)


def test_who_looks_at_no_error_may_be_lucky() -> None:
    taken, outcomes = Slow(), list[int | Exception | None]()
    write_carelessly(cast(NewSnapshot, taken), iter([]), outcomes.append)
    assert taken.frozen is not None
    taken.frozen(7)
    assert (outcomes, taken.closings) == ([7], 0)

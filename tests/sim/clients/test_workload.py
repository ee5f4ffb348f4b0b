"""Clients count what their node acknowledged; applications apply, answer reads, and take snapshots as asked."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import cast

from pykraft.client.serde import bytes_serde
from pykraft.host.snapshots.creation import NewSnapshot
from pykraft.sim.clients.workload import (
    BATCH_SIZE_BYTES_MAX,
    LENGTHS,
    Application,
    PreparedAppends,
    SimulatedWorkload,
    starts_of,
    with_small_buffers,
    write_carelessly,
    write_pieces,
)
from pykraft.sim.facts.history import READ, WRITE, ApplicationState, OperationOutcome, number_of, value_of
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import QuorumSettings, SnapshotSettings, Work
from pykraft.sim.scenario.settings import node_configs
from pykraft.snapshot.catalog import Reason
from pykraft.snapshot.head import SnapshotReader
from pykraft.types import Epoch
from tests.sim.invariants.fakes import batch, operation
from tests.sim.worlds import SEED_OF_THREE, THREE, calm_world, led, led_world, run_for, run_until


def test_clients_call_the_leader_and_what_they_are_told_is_kept() -> None:
    world, leader = led_world()
    world.users.begin()
    run_until(world, lambda: world.users.acknowledged >= 40)
    history = world.facts.history.operations
    numbers = [number_of(value) for operation in history for value in operation.values]
    assert numbers == list(range(1, len(numbers) + 1))
    committed = [operation for operation in history if operation.answer is OperationOutcome.COMMITTED]
    assert sum(len(operation.values) for operation in committed) == world.users.acknowledged
    assert {operation.node_id for operation in history} == {leader.node_id}
    assert all(operation.answered_us is not None and operation.is_alive() for operation in committed)
    assert world.users.acknowledged_end_offset == max(operation.end_offset for operation in committed)
    assert world.users.acknowledged_end_offset <= (leader.host.status.high_watermark or 0)
    assert any(operation.is_read and operation.read for operation in committed)


def test_a_leader_that_loses_its_place_leaves_outcomes_open() -> None:
    world, leader = led_world()
    for other in world.nodes:
        world.network.cut(leader.node_id, other)
        world.network.cut(other, leader.node_id)
    world.users.begin()
    run_until(world, lambda: leader.host.status.role != "leader")
    answers = {operation.answer for operation in world.facts.history.operations}
    assert answers == {OperationOutcome.UNKNOWN}


def test_a_paused_leader_is_not_called() -> None:
    world, leader = led_world()
    leader.pause(300_000)
    world.users.begin()
    run_for(world, 200_000)
    assert not world.facts.history.operations


def test_nothing_is_acknowledged_without_a_majority() -> None:
    world, leader = led_world()
    for node in world.nodes.values():
        if node.node_id != leader.node_id:
            world.network.cut(leader.node_id, int(node.node_id))
            world.network.cut(int(node.node_id), leader.node_id)
    world.users.begin()
    run_for(world, 300_000)
    assert leader.host.status.role == "leader"
    assert world.facts.history.operations
    assert not world.users.acknowledged


def test_without_a_leader_nothing_is_proposed() -> None:
    world = calm_world()
    workload = SimulatedWorkload(world.facts, world.watch, Random(1), PreparedAppends(None), Random)
    workload.begin()
    run_for(world, 100_000)
    assert workload.proposed == 0


PREPARED = replace(THREE, work=Work(prepared_probability=1.0))


def test_the_nodes_of_a_world_share_one_small_buffer() -> None:
    configs = with_small_buffers(node_configs(3, 0, QuorumSettings(), Random(1)), Random(2))
    assert {config.raft.batch_size_bytes_max for config in configs} == {BATCH_SIZE_BYTES_MAX}
    assert len({config.raft.accumulated_batches_max for config in configs}) == 1


def test_without_dice_nothing_is_prepared() -> None:
    world, leader = led_world()
    prepared = PreparedAppends(None)
    assert not any(prepared.is_next(world.nodes[leader.node_id]) for _ in range(100))


def test_appends_are_prepared_in_rows() -> None:
    world, leader = led_world()
    prepared = PreparedAppends(Random(1))
    told = [prepared.is_next(world.nodes[leader.node_id]) for _ in range(1_000)]
    rows = "".join("p" if each else " " for each in told[: told.index(False, 900)]).split()
    assert set(LENGTHS) <= {len(row) for row in rows}


def test_what_is_prepared_is_committed_in_the_end() -> None:
    world, _ = led(World(SEED_OF_THREE, scenario=PREPARED))
    world.users.begin()
    operations = world.facts.history.operations
    run_until(
        world, lambda: sum(each.is_prepared and each.answer is OperationOutcome.COMMITTED for each in operations) >= 40
    )
    assert any(not each.is_prepared and each.answer is OperationOutcome.COMMITTED for each in operations)


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


SNAPSHOTS = SnapshotSettings(
    records_between=(10,),
    bystander_probability=1,
    given_up_probability=0,
    retention_size_bytes_max=(0,),
    clean_interval_ms=(50,),
)


def test_it_falls_behind_and_goes_on() -> None:
    world = World(8, scenario=replace(THREE, snapshots=SNAPSHOTS))
    for node in world.nodes.values():
        node.start()
    world.users.begin()
    run_until(world, lambda: world.faults.counts["listener fell behind"] > 2)
    goal = world.users.acknowledged_end_offset
    run_until(world, lambda: all(each.end_offset >= goal for each in world.bystanders.values()))
    assert len(world.bystanders) == 3


def lived(snapshots: SnapshotSettings, duration_us: int = 1_500_000) -> World:
    world = World(8, scenario=replace(THREE, snapshots=snapshots))
    for node in world.nodes.values():
        node.start()
    world.users.begin()
    run_for(world, duration_us)
    return world


def test_snapshots_are_taken_and_the_log_is_cleaned_below_them() -> None:
    snapshots = SnapshotSettings(records_between=(20,), given_up_probability=0, retention_size_bytes_max=(0,))
    world = lived(replace(snapshots, clean_interval_ms=(50,)))
    assert world.faults.counts["snapshot taken"] > 6
    assert world.faults.counts["log cleaned"] > 2
    for node in world.nodes.values():
        assert node.host is not None
        assert node.host.status.log_start_offset > 0
        assert world.facts.platters.snapshots(node)[-1].offset >= node.host.status.log_start_offset


def test_what_is_given_up_leaves_nothing() -> None:
    world = lived(SnapshotSettings(records_between=(20,), given_up_probability=1))
    assert not world.faults.counts["snapshot taken"]
    assert not any(world.facts.platters.snapshots(node) for node in world.nodes.values())


def test_a_record_that_cannot_be_written_leaves_nothing_whatever_its_application_does() -> None:
    world = lived(SnapshotSettings(records_between=(20,), given_up_probability=0, careless_probability=1))
    assert not world.faults.counts["snapshot taken"]
    assert not any(world.facts.platters.snapshots(node) for node in world.nodes.values())


def test_a_snapshot_that_ends_within_a_batch_is_refused() -> None:
    world = lived(SnapshotSettings(records_between=(20,), within_batch_probability=1))
    refused = [line for line in world.trace.lines if "takes no snapshot within a batch: no batch ends at" in line]
    assert len(refused) > 2
    ends = {entry.end_offset for entry in world.facts.committed.entries}
    for node in world.nodes.values():
        assert ends.issuperset(each.offset for each in world.facts.platters.snapshots(node))

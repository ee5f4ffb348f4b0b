"""Applications that are asked for a snapshot write the state at that offset, while deliveries are held."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pykraft.client.serde import bytes_serde
from pykraft.sim.facts.application_state import ApplicationState
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import SnapshotSettings
from pykraft.snapshot.reader import SnapshotReader
from pykraft.snapshot.schedule import Reason
from tests.sim.clients.test_snapshot_generator import lived

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

"""Listeners get the newest snapshot in place of its records, at first and when they fall behind.

Source: KIP-630; Kafka's ``RaftClient.Listener.handleLoadSnapshot``, ``KafkaRaftClient.updateListenersProgress``.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykraft.client.serde import bytes_serde
from pykraft.config import LogSettings
from pykraft.errors import CorruptionError
from pykraft.host.delivery import Delivery
from pykraft.host.recent_batches import RecentBatches
from pykraft.host.snapshots.creation import Loader, SnapshotOpening
from pykraft.host.snapshots.files import SnapshotAccess, SnapshotFailures, SnapshotFiles
from pykraft.snapshot.files import checkpoint_path
from pykraft.snapshot.reader import SnapshotReader
from pykraft.types import Offset, OffsetAndEpoch
from tests.disks import ScriptedDisk
from tests.host.fakes import FakeListener, FakeLog, FakePorts, at, batch
from tests.snapshot.snapshots import DIRECTORY, id_of, write


def loader(
    taken: list[list[bytes]],
    *,
    formatted: list[OffsetAndEpoch] | None = None,
    save: Callable[[OffsetAndEpoch], None] | None = None,
) -> Loader:
    """Notes the records of each snapshot, and closes it; or that it was the checkpoint of formatting."""

    def load(reader: SnapshotReader[bytes]) -> None:
        taken.append([value for one in reader for value in one.records])
        reader.close()

    def bootstrap(reader: SnapshotReader[bytes]) -> None:
        assert formatted is not None
        formatted.append(reader.snapshot_id)
        load(reader)

    return Loader(bytes_serde, load, bootstrap=None if formatted is None else bootstrap, save=save)


class SnapshotDesk:
    """A delivery beside a directory with a snapshot up to 3, of a log whose batches 0 to 4 are in memory.

    Or one that was only formatted. A snapshot is due after 150 bytes, two of these batches, or after a second.
    """

    def __init__(self, *, start_offset: int = 0, is_formatted: bool = False) -> None:
        self.ports = FakePorts()
        self.fs = fs = ScriptedDisk()
        fs.prepare(DIRECTORY)
        snapshot_id = id_of(0, 0) if is_formatted else id_of(3, 1)
        write(fs, [b"formatted"] if is_formatted else [b"state"], snapshot_id=snapshot_id)
        files = SnapshotFiles.open(
            fs,
            DIRECTORY,
            log_start_offset=Offset(start_offset),
            leader_epoch=None,
            settings=LogSettings(snapshot_record_bytes_max=150, snapshot_interval_ms=1_000),
        )
        recent = RecentBatches(end_offset=Offset(start_offset))
        recent.append([batch(offset) for offset in range(start_offset, 5)])
        self.reading = SnapshotFailures(self.ports, SnapshotAccess.READ, pause_ms=1_000)
        self.delivery = Delivery(
            self.ports,
            FakeLog(),
            recent,
            Offset(start_offset),
            lambda *_: None,
            SnapshotOpening(self.ports, files, self.reading),
        )
        self.listener = FakeListener()
        self.taken: list[list[bytes]] = []

    def settle(self, high_watermark: int = 5) -> list[tuple[int, ...] | tuple[str, int, int | None]]:
        self.delivery.committed(Offset(high_watermark))
        while self.ports.reads:
            self.ports.finish_read()
        return self.listener.calls


@pytest.mark.conformance(119)
@pytest.mark.parametrize("start_offset", [0, 3])
def test_a_new_listener_gets_the_snapshot_and_then_what_follows(start_offset: int) -> None:
    desk = SnapshotDesk(start_offset=start_offset)
    desk.delivery.register(desk.listener, loader=loader(desk.taken))
    assert desk.settle() == [(3, 4)]
    assert desk.taken == [[b"state"]]


@pytest.mark.conformance(119)
def test_a_listener_that_fell_behind_the_log_start_gets_the_snapshot_again() -> None:
    desk = SnapshotDesk()
    desk.delivery.register(desk.listener, Offset(0), loader=loader(desk.taken))
    assert desk.settle(1) == [(0,)]
    desk.delivery.log_begins_at(Offset(3))
    assert desk.settle() == [(0,), (3, 4)]
    assert desk.taken == [[b"state"]]


def test_a_listener_that_begins_below_the_log_start_gets_the_snapshot() -> None:
    desk = SnapshotDesk(start_offset=3)
    desk.delivery.register(desk.listener, Offset(1), loader=loader(desk.taken))
    assert desk.settle() == [(3, 4)]
    assert desk.taken == [[b"state"]]


def test_who_cannot_load_a_snapshot_goes_on_where_the_log_starts() -> None:
    desk = SnapshotDesk()
    desk.delivery.register(desk.listener)
    assert desk.settle(1) == [(0,)]
    desk.delivery.log_begins_at(Offset(3))
    assert desk.settle() == [(0,), (3, 4)]


def test_who_went_away_while_a_snapshot_was_opened_does_not_get_it() -> None:
    desk = SnapshotDesk()
    registration = desk.delivery.register(desk.listener, loader=loader(desk.taken))
    desk.delivery.committed(Offset(5))
    registration.remove()
    assert desk.settle() == []
    assert desk.taken == []


def test_snapshot_that_cannot_be_read_is_loaded_after_the_pause() -> None:
    desk = SnapshotDesk()
    desk.fs.lost[checkpoint_path(DIRECTORY, id_of(3, 1)).name] = range(100)
    desk.delivery.register(desk.listener, loader=loader(desk.taken))
    assert desk.settle() == []
    assert len(desk.ports.alarms) == 1
    desk.fs.lost.clear()
    desk.reading.poll(at(0))
    assert desk.settle() == []
    desk.reading.poll(at(1_000))
    assert desk.settle() == [(3, 4)]
    assert desk.taken == [[b"state"]]


def test_snapshot_with_wrong_bytes_ends_the_node() -> None:
    desk = SnapshotDesk()
    path = checkpoint_path(DIRECTORY, id_of(3, 1))
    desk.fs.write(path, b"?" * 200)
    desk.delivery.register(desk.listener, loader=loader(desk.taken))
    with pytest.raises(CorruptionError):
        desk.settle()


@pytest.mark.conformance(119)
def test_who_reads_while_the_log_start_passes_by_loads_the_snapshot_then() -> None:
    desk = SnapshotDesk()
    desk.delivery.recent.evict(Offset(0))
    desk.delivery.recent.begin_anew_at(Offset(3))
    desk.delivery.recent.append([batch(3), batch(4)])
    desk.delivery.register(desk.listener, Offset(0), loader=loader(desk.taken))
    desk.delivery.committed(Offset(5))
    _, then = desk.ports.reads.pop()
    desk.delivery.log_begins_at(Offset(3))
    then(None)
    assert desk.settle() == [(3, 4)]
    assert desk.taken == [[b"state"]]


@pytest.mark.conformance(128)
def test_the_checkpoint_of_formatting_comes_before_the_first_record() -> None:
    desk = SnapshotDesk(is_formatted=True)
    formatted: list[OffsetAndEpoch] = []
    desk.delivery.register(desk.listener, loader=loader(desk.taken, formatted=formatted))
    assert desk.settle() == [(0, 1, 2, 3, 4)]
    assert (formatted, desk.taken) == ([id_of(0, 0)], [[b"formatted"]])


@pytest.mark.conformance(128)
def test_the_checkpoint_of_formatting_is_of_no_interest_to_who_is_further_or_cannot_take_it() -> None:
    desk = SnapshotDesk(is_formatted=True)
    formatted: list[OffsetAndEpoch] = []
    desk.delivery.register(desk.listener, Offset(0), loader=loader(desk.taken, formatted=formatted))
    assert desk.settle() == [(0, 1, 2, 3, 4)]
    other = FakeListener()
    desk.delivery.register(other, loader=loader(desk.taken))
    desk.settle()
    assert other.calls == [(0, 1, 2, 3, 4)]
    assert (formatted, desk.taken) == ([], [])


@pytest.mark.conformance(128)
def test_a_snapshot_comes_in_the_place_of_the_checkpoint_of_formatting() -> None:
    desk = SnapshotDesk()
    write(desk.fs, [b"formatted"], snapshot_id=id_of(0, 0))
    formatted: list[OffsetAndEpoch] = []
    desk.delivery.register(desk.listener, loader=loader(desk.taken, formatted=formatted))
    assert desk.settle() == [(3, 4)]
    assert (formatted, desk.taken) == ([], [[b"state"]])


class Saver:
    """Notes what it is asked for; held until it has answered, as an application holds its registration."""

    def __init__(self, desk: SnapshotDesk) -> None:
        self.asked: list[OffsetAndEpoch] = []
        self.registration = desk.delivery.register(
            desk.listener, is_held=True, loader=loader(desk.taken, save=self.save)
        )
        self.registration.release()

    def save(self, snapshot_id: OffsetAndEpoch) -> None:
        self.asked.append(snapshot_id)
        self.registration.hold()


def test_a_busy_save_is_asked_between_two_pieces() -> None:
    desk = SnapshotDesk(is_formatted=True)
    saver = Saver(desk)
    assert desk.settle(1) == [(0,)]
    assert saver.asked == []
    assert desk.settle(3) == [(0,), (1, 2)]
    assert saver.asked == [id_of(3, 1)]
    assert desk.settle(5) == [(0,), (1, 2)]
    saver.registration.release()
    assert desk.settle(5) == [(0,), (1, 2), (3, 4)]
    assert saver.asked == [id_of(3, 1), id_of(5, 1)]


def test_who_saves_is_asked_after_a_time_if_anything_came() -> None:
    desk = SnapshotDesk(is_formatted=True)
    saver = Saver(desk)
    desk.delivery.poll(10)
    assert desk.delivery.next_deadline_ms is None
    desk.settle(1)
    assert desk.ports.wake_ms == 0
    assert desk.delivery.next_deadline_ms == 1_010
    desk.delivery.poll(1_009)
    assert saver.asked == []
    desk.delivery.poll(1_010)
    assert saver.asked == [id_of(1, 1)]
    assert desk.delivery.next_deadline_ms is None


def test_a_snapshot_that_is_loaded_counts_as_the_last_one() -> None:
    desk = SnapshotDesk()
    desk.delivery.poll(10)
    saver = Saver(desk)
    assert desk.settle(4) == [(3,)]
    assert (desk.taken, saver.asked) == ([[b"state"]], [])
    desk.settle(5)
    assert saver.asked == [id_of(5, 1)]

"""Listeners get every committed batch once and in order, and hear of leadership only with the complete state.

Listeners get the newest snapshot in place of its records, at first and when they fall behind.

Source: Kafka's ``RaftClient.Listener`` and ``KafkaRaftClient.ListenerContext``; KIP-630; Kafka's
``RaftClient.Listener.handleLoadSnapshot``, ``KafkaRaftClient.updateListenersProgress``.
"""

from collections.abc import Callable

import pytest

from pykraft.client.serde import bytes_serde
from pykraft.config import LogSettings
from pykraft.errors import CorruptionError, UsageError
from pykraft.host.delivery import PIECE_SIZE_BYTES_MAX, CommittedBatch, Delivery
from pykraft.host.fetch_read import RecentBatches
from pykraft.host.snapshots.creation import Loader, SnapshotReading
from pykraft.host.snapshots.files import SnapshotAccess, SnapshotFailures, SnapshotFiles
from pykraft.protocol.records import encode_control_batch
from pykraft.snapshot.files import checkpoint_path
from pykraft.snapshot.head import SnapshotReader
from pykraft.types import Epoch, LeaderChange, NodeId, Offset, OffsetAndEpoch
from tests.disks import ScriptedDisk
from tests.host.fakes import FakeListener, FakeLog, FakePorts, at, batch, leads, snapshot_files
from tests.snapshot.snapshots import DIRECTORY, id_of, write


class Desk:
    """A delivery whose first batches are in files only and whose next are in memory."""

    def __init__(self, *, in_files: int = 0, in_memory: int = 0) -> None:
        self.ports = FakePorts()
        self.log = FakeLog([batch(offset) for offset in range(in_files)])
        self.recent = RecentBatches(end_offset=Offset(in_files))
        self.recent.append([batch(offset) for offset in range(in_files, in_files + in_memory)])
        opening = SnapshotReading(
            self.ports, snapshot_files(), SnapshotFailures(self.ports, SnapshotAccess.READ, pause_ms=1_000)
        )
        self.delivery = Delivery(self.ports, self.log, self.recent, Offset(0), self._suspect, opening)
        self.listener = FakeListener()
        self.suspected: list[tuple[Offset, Callable[[], None]]] = []
        self.registration = self.delivery.register(self.listener)

    def _suspect(self, offset: Offset, retry: Callable[[], None]) -> None:
        self.suspected.append((offset, retry))

    def commit(self, high_watermark: int) -> list[tuple[int, ...] | tuple[str, int, int | None]]:
        """Raise the high watermark, finish all reads; what the listener was called with since."""
        self.listener.calls.clear()
        self.delivery.committed(Offset(high_watermark))
        while self.ports.reads:
            self.ports.finish_read()
        return self.listener.calls


def test_committed_batches_come_from_memory_in_the_same_call() -> None:
    desk = Desk(in_memory=4)
    desk.delivery.committed(Offset(2))
    assert desk.listener.calls == [(0, 1)]
    assert desk.commit(4) == [(2, 3)]
    assert desk.listener.values == [b"value %d" % offset for offset in range(4)]


def test_nothing_comes_twice_when_the_high_watermark_is_told_again_or_falls() -> None:
    desk = Desk(in_memory=4)
    desk.commit(3)
    assert desk.commit(3) == []
    assert desk.commit(1) == []
    assert desk.commit(4) == [(3,)]


@pytest.mark.conformance(116)
def test_a_listener_that_is_behind_reads_the_files_and_then_memory() -> None:
    desk = Desk(in_files=3, in_memory=2)
    desk.delivery.committed(Offset(4))
    assert desk.listener.calls == []
    desk.ports.finish_read()
    assert desk.listener.calls == [(0, 1, 2), (3,)]
    assert desk.ports.reads == []


def test_while_a_read_is_under_way_nothing_overtakes_it() -> None:
    desk = Desk(in_files=3, in_memory=2)
    desk.delivery.committed(Offset(2))
    desk.delivery.committed(Offset(5))
    assert len(desk.ports.reads) == 1
    desk.ports.finish_read()
    desk.ports.finish_read()
    assert [one.base_offset for one in desk.listener.batches] == [0, 1, 2, 3, 4]


@pytest.mark.conformance(102)
def test_a_piece_ends_at_the_high_watermark_at_which_its_read_began() -> None:
    """What the file held beyond it was cut off and written anew before the read returned."""
    desk = Desk(in_files=3)
    desk.log.batches[2] = batch(2, b"never committed")
    desk.delivery.committed(Offset(2))
    read, then = desk.ports.reads.pop()
    data = read()
    desk.log.batches[2] = batch(2, b"committed")
    desk.delivery.committed(Offset(3))
    then(data)
    desk.ports.finish_read()
    assert desk.listener.values == [b"value 0", b"value 1", b"committed"]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_large_amounts_come_in_bounded_pieces(desk: Desk) -> None:
    desk.recent.append([batch(offset, bytes([65]) * 400_000) for offset in range(5)])
    assert desk.commit(5) == [(0, 1), (2, 3), (4,)]
    assert 2 * 400_000 < PIECE_SIZE_BYTES_MAX < 3 * 400_000


@pytest.mark.conformance(102)
def test_a_high_watermark_within_a_batch_waits_for_its_end(desk: Desk) -> None:
    desk.recent.append([batch(0, b"a", b"b", b"c")])
    assert desk.commit(2) == []
    assert desk.commit(3) == [(0,)]


def test_a_high_watermark_within_a_batch_in_the_files_does_not_read_for_ever(desk: Desk) -> None:
    desk.log.batches = [batch(0, b"a", b"b", b"c")]
    desk.recent.truncate_to(Offset(3))
    assert desk.commit(2) == []
    assert desk.commit(3) == [(0,)]


def test_news_of_a_leader_come_at_once() -> None:
    desk = Desk(in_memory=4)
    desk.delivery.leader_changed(leads(3, leader_id=None))
    desk.delivery.leader_changed(leads(3, leader_id=2))
    assert desk.listener.calls == [("leader", 3, None), ("leader", 3, 2)]


@pytest.mark.conformance(52, "H41")
def test_own_leadership_is_told_after_the_first_record_of_the_epoch() -> None:
    desk = Desk(in_memory=4)
    desk.delivery.leader_changed(leads(3, leader_id=1, epoch_start_offset=2))
    assert desk.commit(2) == [(0, 1)]
    assert desk.commit(3) == [(2,), ("leader", 3, 1)]
    assert desk.commit(4) == [(3,)]


@pytest.mark.conformance(52)
def test_own_leadership_is_told_before_what_follows_when_all_is_there_already() -> None:
    desk = Desk(in_memory=4)
    desk.commit(3)
    desk.listener.calls.clear()
    desk.delivery.leader_changed(leads(3, leader_id=1, epoch_start_offset=2))
    assert desk.listener.calls == [("leader", 3, 1)]


@pytest.mark.conformance(52)
def test_newer_news_replace_what_was_withheld() -> None:
    desk = Desk(in_memory=4)
    desk.delivery.leader_changed(leads(3, leader_id=1, epoch_start_offset=2))
    desk.delivery.leader_changed(leads(4, leader_id=2))
    assert desk.commit(4) == [(0, 1, 2, 3)]


@pytest.mark.conformance(52)
def test_a_leadership_that_ended_unheard_is_never_told() -> None:
    desk = Desk(in_memory=4)
    desk.delivery.leader_changed(leads(3, leader_id=1, epoch_start_offset=2))
    desk.delivery.leads_no_more()
    assert desk.commit(4) == [(0, 1, 2, 3)]
    late = FakeListener()
    desk.delivery.register(late)
    assert late.calls == [(0, 1, 2, 3)]


def test_the_end_of_a_leadership_does_not_take_back_other_news(desk: Desk) -> None:
    desk.delivery.leader_changed(leads(3, leader_id=2))
    desk.delivery.leads_no_more()
    late = FakeListener()
    desk.delivery.register(late)
    assert late.calls == [("leader", 3, 2)]


@pytest.mark.conformance(52, "H40")
def test_a_late_listener_is_given_everything_and_the_newest_news() -> None:
    desk = Desk(in_memory=3)
    desk.delivery.leader_changed(leads(1, leader_id=3))
    desk.commit(2)
    late = FakeListener()
    desk.delivery.register(late)
    assert late.calls == [("leader", 1, 3), (0, 1)]


@pytest.mark.conformance("H42")
def test_a_slow_listener_does_not_hold_up_another_one() -> None:
    desk = Desk(in_files=2, in_memory=1)
    desk.commit(3)
    late = FakeListener()
    desk.delivery.register(late)
    desk.recent.append([batch(3)])
    desk.delivery.committed(Offset(4))
    assert desk.listener.calls[-1] == (3,)
    assert late.calls == []
    desk.ports.finish_read()
    assert [one.base_offset for one in late.batches] == [0, 1, 2, 3]


def test_a_listener_may_cause_more_commits_from_within_its_call() -> None:
    desk = Desk(in_memory=3)
    desk.listener.on_each = lambda: desk.delivery.committed(Offset(3))
    assert desk.commit(1) == [(0,), (1, 2)]


@pytest.mark.conformance(116)
def test_a_control_batch_has_no_values() -> None:
    record = LeaderChange(leader_id=NodeId(1), voters=(NodeId(1),), granting_voters=(NodeId(1),))
    sealed = encode_control_batch([record], base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=8)
    desk = Desk()
    desk.recent.append([sealed])
    desk.commit(1)
    assert desk.listener.batches == [
        CommittedBatch(
            base_offset=Offset(0),
            end_offset=Offset(1),
            epoch=Epoch(1),
            timestamp_ms=8,
            is_control=True,
            data=sealed.data,
        )
    ]
    assert desk.listener.values == []


def test_a_gap_is_our_own_bug() -> None:
    desk = Desk(in_files=3)
    del desk.log.batches[0]
    desk.delivery.committed(Offset(3))
    with pytest.raises(AssertionError):
        desk.ports.finish_read()


def test_a_listener_that_is_held_is_called_no_more_until_it_is_released() -> None:
    desk = Desk(in_memory=4)
    desk.listener.on_each = desk.registration.hold
    assert desk.commit(1) == [(0,)]
    desk.delivery.leader_changed(leads(3, leader_id=2))
    assert desk.commit(4) == []
    desk.registration.release()
    assert desk.listener.calls == [("leader", 3, 2), (1, 2, 3)]
    assert desk.registration.next_offset == 4


def test_a_listener_can_be_held_from_the_first() -> None:
    desk = Desk(in_memory=2)
    desk.commit(2)
    late = FakeListener()
    registration = desk.delivery.register(late, is_held=True)
    assert late.calls == []
    registration.release()
    assert late.calls == [(0, 1)]


def test_a_read_that_returns_while_its_listener_is_held_is_done_again() -> None:
    desk = Desk(in_files=3)
    desk.delivery.committed(Offset(3))
    desk.registration.hold()
    desk.ports.finish_read()
    assert desk.listener.calls == []
    assert desk.ports.reads == []
    desk.registration.release()
    desk.ports.finish_read()
    assert desk.listener.calls == [(0, 1, 2)]


def test_a_listener_that_is_removed_hears_nothing_any_more() -> None:
    desk = Desk(in_files=1, in_memory=2)
    desk.delivery.committed(Offset(1))
    desk.registration.remove()
    desk.ports.finish_read()
    desk.delivery.leader_changed(leads(3, leader_id=2))
    assert desk.commit(3) == []
    desk.registration.release()
    assert desk.listener.calls == []
    with pytest.raises(UsageError, match="is not registered"):
        desk.registration.remove()


def test_a_listener_may_remove_itself_from_within_its_call(desk: Desk) -> None:
    desk.recent.append([batch(offset, bytes([65]) * 600_000) for offset in range(3)])
    desk.listener.on_each = desk.registration.remove
    assert desk.commit(3) == [(0,)]


@pytest.mark.conformance(52)
def test_a_listener_that_was_removed_can_begin_anew() -> None:
    desk = Desk(in_memory=2)
    desk.commit(2)
    desk.registration.remove()
    desk.listener.calls.clear()
    desk.delivery.register(desk.listener)
    assert desk.listener.calls == [(0, 1)]


def test_a_listener_is_registered_once(desk: Desk) -> None:
    with pytest.raises(UsageError, match="already registered"):
        desk.delivery.register(desk.listener)


def test_a_listener_can_go_on_where_it_was_also_beyond_what_is_committed() -> None:
    desk = Desk(in_files=2, in_memory=2)
    first, second = FakeListener(), FakeListener()
    desk.delivery.register(first, Offset(1))
    desk.delivery.register(second, Offset(3))
    desk.commit(3)
    assert first.calls == [(1,), (2,)]
    assert second.calls == []
    desk.commit(4)
    assert second.calls == [(3,)]


def test_the_batch_that_holds_the_first_offset_comes_whole(desk: Desk) -> None:
    desk.recent.append([batch(0, b"a", b"b", b"c"), batch(3)])
    desk.commit(4)
    late = FakeListener()
    desk.delivery.register(late, Offset(2))
    assert late.calls == [(0, 3)]


def test_an_offset_below_the_log_start_is_refused(desk: Desk) -> None:
    with pytest.raises(UsageError, match="begins at 0"):
        desk.delivery.register(FakeListener(), Offset(-1))


def test_damage_is_read_again_when_it_is_mended_or_was_none() -> None:
    desk = Desk(in_files=3, in_memory=2)
    sound = desk.log.read

    def refuse(offset: Offset, size_bytes_max: int) -> bytes:
        raise CorruptionError("a file", position=int(offset), expected="a sound batch", found=f"{size_bytes_max} bytes")

    desk.log.read = refuse  # type: ignore[method-assign]
    assert desk.commit(5) == []
    ((offset, retry),) = desk.suspected
    assert offset == 0
    desk.log.read = sound  # type: ignore[method-assign]
    retry()
    desk.ports.finish_read()
    assert desk.listener.calls == [(0, 1, 2), (3, 4)]


def test_what_is_lost_to_damage_is_given_when_it_is_there_again() -> None:
    desk = Desk(in_files=3, in_memory=2)
    desk.delivery.committed(Offset(5))
    desk.recent.truncate_to(Offset(1))

    def refuse(offset: Offset, size_bytes_max: int) -> bytes:
        raise UsageError(f"{offset} is not in this log, nor are {size_bytes_max} bytes")

    desk.log.read = refuse  # type: ignore[method-assign]
    desk.ports.finish_read()
    assert desk.listener.calls == []
    desk.log.read = FakeLog([batch(0)]).read  # type: ignore[method-assign]
    assert desk.commit(1) == [(0,)]
    desk.recent.append([batch(offset) for offset in range(1, 5)])
    assert desk.commit(4) == [(1, 2, 3, 4)]


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
            SnapshotReading(self.ports, files, self.reading),
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


@pytest.fixture
def snapshot_desk() -> SnapshotDesk:
    return SnapshotDesk()


@pytest.mark.conformance(119)
def test_a_listener_that_fell_behind_the_log_start_gets_the_snapshot_again(snapshot_desk: SnapshotDesk) -> None:
    snapshot_desk.delivery.register(snapshot_desk.listener, Offset(0), loader=loader(snapshot_desk.taken))
    assert snapshot_desk.settle(1) == [(0,)]
    snapshot_desk.delivery.log_begins_at(Offset(3))
    assert snapshot_desk.settle() == [(0,), (3, 4)]
    assert snapshot_desk.taken == [[b"state"]]


def test_a_listener_that_begins_below_the_log_start_gets_the_snapshot() -> None:
    desk = SnapshotDesk(start_offset=3)
    desk.delivery.register(desk.listener, Offset(1), loader=loader(desk.taken))
    assert desk.settle() == [(3, 4)]
    assert desk.taken == [[b"state"]]


def test_who_cannot_load_a_snapshot_goes_on_where_the_log_starts(snapshot_desk: SnapshotDesk) -> None:
    snapshot_desk.delivery.register(snapshot_desk.listener)
    assert snapshot_desk.settle(1) == [(0,)]
    snapshot_desk.delivery.log_begins_at(Offset(3))
    assert snapshot_desk.settle() == [(0,), (3, 4)]


def test_who_went_away_while_a_snapshot_was_opened_does_not_get_it(snapshot_desk: SnapshotDesk) -> None:
    registration = snapshot_desk.delivery.register(snapshot_desk.listener, loader=loader(snapshot_desk.taken))
    snapshot_desk.delivery.committed(Offset(5))
    registration.remove()
    assert snapshot_desk.settle() == []
    assert snapshot_desk.taken == []


def test_snapshot_that_cannot_be_read_is_loaded_after_the_pause(snapshot_desk: SnapshotDesk) -> None:
    snapshot_desk.fs.lost[checkpoint_path(DIRECTORY, id_of(3, 1)).name] = range(100)
    snapshot_desk.delivery.register(snapshot_desk.listener, loader=loader(snapshot_desk.taken))
    assert snapshot_desk.settle() == []
    assert len(snapshot_desk.ports.alarms) == 1
    snapshot_desk.fs.lost.clear()
    snapshot_desk.reading.poll(at(0))
    assert snapshot_desk.settle() == []
    snapshot_desk.reading.poll(at(1_000))
    assert snapshot_desk.settle() == [(3, 4)]
    assert snapshot_desk.taken == [[b"state"]]


def test_snapshot_with_wrong_bytes_ends_the_node(snapshot_desk: SnapshotDesk) -> None:
    path = checkpoint_path(DIRECTORY, id_of(3, 1))
    snapshot_desk.fs.write(path, b"?" * 200)
    snapshot_desk.delivery.register(snapshot_desk.listener, loader=loader(snapshot_desk.taken))
    with pytest.raises(CorruptionError):
        snapshot_desk.settle()


@pytest.mark.conformance(119)
def test_who_reads_while_the_log_start_passes_by_loads_the_snapshot_then(snapshot_desk: SnapshotDesk) -> None:
    snapshot_desk.delivery.recent.evict(Offset(0))
    snapshot_desk.delivery.recent.begin_anew_at(Offset(3))
    snapshot_desk.delivery.recent.append([batch(3), batch(4)])
    snapshot_desk.delivery.register(snapshot_desk.listener, Offset(0), loader=loader(snapshot_desk.taken))
    snapshot_desk.delivery.committed(Offset(5))
    _, then = snapshot_desk.ports.reads.pop()
    snapshot_desk.delivery.log_begins_at(Offset(3))
    then(None)
    assert snapshot_desk.settle() == [(3, 4)]
    assert snapshot_desk.taken == [[b"state"]]


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
def test_a_snapshot_comes_in_the_place_of_the_checkpoint_of_formatting(snapshot_desk: SnapshotDesk) -> None:
    write(snapshot_desk.fs, [b"formatted"], snapshot_id=id_of(0, 0))
    formatted: list[OffsetAndEpoch] = []
    snapshot_desk.delivery.register(snapshot_desk.listener, loader=loader(snapshot_desk.taken, formatted=formatted))
    assert snapshot_desk.settle() == [(3, 4)]
    assert (formatted, snapshot_desk.taken) == ([], [[b"state"]])


class Saver:
    """Notes what it is asked for; held until it has answered, as an application holds its registration."""

    def __init__(self, snapshot_desk: SnapshotDesk) -> None:
        self.asked: list[OffsetAndEpoch] = []
        self.registration = snapshot_desk.delivery.register(
            snapshot_desk.listener, is_held=True, loader=loader(snapshot_desk.taken, save=self.save)
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


def test_a_snapshot_that_is_loaded_counts_as_the_last_one(snapshot_desk: SnapshotDesk) -> None:
    snapshot_desk.delivery.poll(10)
    saver = Saver(snapshot_desk)
    assert snapshot_desk.settle(4) == [(3,)]
    assert (snapshot_desk.taken, saver.asked) == ([[b"state"]], [])
    snapshot_desk.settle(5)
    assert saver.asked == [id_of(5, 1)]

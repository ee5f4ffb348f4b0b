"""One segment: staged writes, its truncation, its syncs, what a reader gets, and every way in which bytes can be wrong.

Source: Kafka's ``LogSegment``; rules of ours (ADR 059).
"""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.errors import CorruptionError, ReadError
from pykraft.log import segment
from pykraft.log.log import POINT_FLUSHES_MAX, POINT_SIZE_BYTES_MAX
from pykraft.log.open_files import OpenFiles
from pykraft.log.segment import Segment, SegmentContent, SegmentView
from pykraft.log.small_files.recovery_point import RecoveryPoint
from pykraft.sim.machine.disk import VirtualFile
from pykraft.types import Epoch, EpochStart, Offset
from tests.disks import ScriptedDisk
from tests.log.logs import DIRECTORY, EPOCH_1, ONE, SMALL, Batch, batch, bytes_of, fill, open_log, run_of

BASE = f"{10:020d}"


def segment_with(batches: list[Batch], fs: ScriptedDisk) -> Segment:
    fs.prepare(DIRECTORY)
    segment = Segment(fs, OpenFiles(fs), DIRECTORY, SegmentContent(Offset(10), SMALL), SMALL)
    for header, data in batches:
        segment.stage(header, data)
    segment.write()
    return segment


def indexes(fs: ScriptedDisk) -> tuple[bytes, bytes]:
    return fs.read(DIRECTORY / f"{BASE}.index"), fs.read(DIRECTORY / f"{BASE}.timeindex")


def test_staged_batches_reach_the_file_with_one_write() -> None:
    fs = ScriptedDisk()
    batches = run_of(10, 5)
    segment = segment_with(batches, fs)
    assert fs.read(segment.path) == b"".join(bytes_of(batches))
    assert (segment.base_offset, segment.end_offset) == (10, 15)
    assert [one for one in fs.operations if one == ("pwrite", segment.path.name)] == [("pwrite", segment.path.name)]
    fs.operations.clear()
    segment.write()
    assert fs.operations == []


def test_a_sealed_segment_has_whole_trimmed_and_synced_indexes() -> None:
    fs = ScriptedDisk()
    segment = segment_with([batch(10 + at, time=at) for at in range(9)], fs)
    assert [len(content) for content in indexes(fs)] == [480, 480]
    segment.seal()
    assert indexes(fs) == (segment.content.index.offset_bytes(), segment.content.index.time_bytes())
    assert fs.operations[-1] == ("sync", f"{BASE}.timeindex")


@pytest.mark.parametrize("is_sealed", [False, True])
@pytest.mark.parametrize("cut", range(10, 20))
def test_a_truncated_segment_is_that_of_fewer_batches_and_takes_more(cut: int, *, is_sealed: bool) -> None:
    batches = [batch(10 + at, time=100 - at if at < 4 else 100 + at) for at in range(9)]
    fs, fresh = ScriptedDisk(), ScriptedDisk()
    segment = segment_with(batches, fs)
    if is_sealed:
        segment.seal()
    segment.truncate_to(*segment.view(EPOCH_1).find_end(Offset(cut)))
    kept = [one for one in batches if one[0].end_offset <= cut]
    expected = segment_with(kept, fresh)
    assert fs.read(segment.path) == b"".join(bytes_of(kept))
    assert segment.end_offset == (kept[-1][0].end_offset if kept else 10)
    assert segment.content.first_timestamp == expected.content.first_timestamp
    segment.seal()
    expected.seal()
    assert indexes(fs)[0] == indexes(fresh)[0]
    assert indexes(fs)[1][-12:] == indexes(fresh)[1][-12:]
    for header, data in run_of(segment.end_offset, 2):
        segment.stage(header, data)
    segment.write()
    assert segment.view(EPOCH_1).read(Offset(segment.end_offset - 1), 1)


def test_bytes_behind_the_content_are_cut() -> None:
    fs = ScriptedDisk()
    segment = segment_with(run_of(10, 2), fs)
    assert segment.cut_tail() == 0
    whole = fs.read(segment.path)
    fs.write(segment.path, whole + b"torn")
    assert segment.cut_tail() == 4
    assert fs.read(segment.path) == whole


def test_only_a_changed_segment_is_synced() -> None:
    fs = ScriptedDisk()
    segment = segment_with(run_of(10, 2), fs)
    segment.sync()
    fs.operations.clear()
    segment.sync()
    assert fs.operations == []


def test_a_removed_segment_leaves_no_file_and_cannot_be_read() -> None:
    fs = ScriptedDisk()
    batches = run_of(10, 2)
    segment = segment_with(batches, fs)
    view = segment.view(EPOCH_1)
    segment.remove()
    assert fs.listdir(DIRECTORY) == []
    with pytest.raises(ReadError, match="no such file"):
        view.read(Offset(10), 1000)


def test_a_retired_segment_has_other_names_and_cannot_be_read() -> None:
    fs = ScriptedDisk()
    batches = run_of(10, 2)
    segment = segment_with(batches, fs)
    view = segment.view(EPOCH_1)
    segment.retire()
    assert fs.listdir(DIRECTORY) == [f"{10:020d}.{suffix}.deleted" for suffix in ("index", "log", "timeindex")]
    with pytest.raises(ReadError, match="no such file"):
        view.read(Offset(10), 1000)


def test_an_index_is_full_one_time_entry_early() -> None:
    content = SegmentContent(Offset(0), SMALL)
    for at in range(500):
        content.add(batch(at, time=at)[0])
        times, offsets = content.index.times_count, content.index.offsets_count
        assert content.is_index_full == (times >= 480 // 12 - 1 or offsets >= 480 // 8)
    assert content.is_index_full


@pytest.mark.parametrize("position", [0, 7, 10_000])
def test_bytes_are_written_again_as_they_are_and_synced(monkeypatch: pytest.MonkeyPatch, position: int) -> None:
    monkeypatch.setattr("pykraft.log.segment.REWRITTEN_SIZE_BYTES", 50)
    fs = ScriptedDisk()
    segment = segment_with(run_of(10, 5), fs)
    segment.sync()
    whole = fs.read(segment.path)
    fs.operations.clear()
    segment.rewrite(position)
    segment.sync()
    assert fs.read(segment.path) == whole
    expected = -(-max(len(whole) - position, 0) // 50)
    written = [one for one in fs.operations if one == ("pwrite", segment.path.name)]
    assert len(written) == expected
    assert (fs.operations[-1:] == [("sync", segment.path.name)]) is (expected > 0)


class Reservations:
    """The ends of what a segment asks the disk to reserve, in batches; 0 when it gives the rest back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, size_bytes: int) -> None:
        self.ends: list[int] = []
        self.last_end = 0

        def reserve(_: VirtualFile, position: int, reserved_bytes: int) -> None:
            assert reserved_bytes > 0
            assert position >= self.last_end, "nothing is reserved twice"
            self.last_end = position + reserved_bytes
            self.ends.append(self.last_end // size_bytes)

        monkeypatch.setattr(VirtualFile, "reserve", reserve)
        monkeypatch.setattr(VirtualFile, "unreserve", lambda _: self.ends.append(0))
        monkeypatch.setattr(segment, "RESERVED_FROM_SIZE_BYTES", 2 * size_bytes)
        monkeypatch.setattr(segment, "RESERVED_SIZE_BYTES", 10 * size_bytes)


def test_space_is_reserved_ahead_of_the_appends(monkeypatch: pytest.MonkeyPatch) -> None:
    size_bytes = len(batch(10)[1])
    reservations = Reservations(monkeypatch, size_bytes)
    fs = ScriptedDisk()
    grown = segment_with([batch(10)], fs)
    grown.reserve()
    assert reservations.ends == [], "a small segment reserves nothing"
    for header, data in run_of(11, 14):
        grown.stage(header, data)
        grown.write()
        grown.reserve()
    most = SMALL.segment_size_bytes // size_bytes
    assert reservations.ends == [12, 18, 24][: len(reservations.ends)]
    assert len(reservations.ends) == 3
    assert reservations.ends[-1] < most
    for header, data in run_of(25, most - 16):
        grown.stage(header, data)
        grown.write()
        grown.reserve()
    assert reservations.ends[-1] == most, "never beyond the size of a segment"
    assert reservations.ends.count(most) == 1
    grown.seal()
    assert reservations.ends[-1] == 0, "a sealed segment gives the rest back"


def test_a_cut_segment_reserves_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    reservations = Reservations(monkeypatch, len(batch(10)[1]))
    cut = segment_with(run_of(10, 3), ScriptedDisk())
    cut.reserve()
    cut.truncate_to(2 * len(batch(10)[1]), Offset(12))
    reservations.last_end = 0
    cut.reserve()
    assert reservations.ends == [13, 12]
    cut.truncate_to(0, Offset(10))
    cut.seal()
    assert reservations.ends == [13, 12], "nothing is reserved any more"


def view_of(batches: list[Batch], *, index_interval_bytes: int = 200) -> tuple[ScriptedDisk, SegmentView]:
    fs = ScriptedDisk()
    fs.prepare(DIRECTORY)
    config = replace(SMALL, index_interval_bytes=index_interval_bytes)
    segment = Segment(fs, OpenFiles(fs), DIRECTORY, SegmentContent(Offset(10), config), config)
    for header, data in batches:
        segment.stage(header, data)
    segment.write()
    return fs, segment.view(EPOCH_1)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 300)), min_size=1, max_size=12), st.data())
def test_a_read_begins_with_the_batch_of_the_offset_and_is_as_long_as_it_may(
    shapes: list[tuple[int, int]], data: st.DataObject
) -> None:
    batches: list[Batch] = []
    for count, size_bytes in shapes:
        start = batches[-1][0].end_offset if batches else 10
        batches.append(batch(start, count=count, size_bytes=size_bytes, fill=start))
    _, view = view_of(batches)
    offset = data.draw(st.integers(10, view.end_offset - 1))
    size_bytes_max = data.draw(st.integers(0, view.size_bytes + 10))
    first = next(at for at, (header, _) in enumerate(batches) if header.end_offset > offset)
    expected = b""
    for _, one in batches[first:]:
        if expected and len(expected) + len(one) > size_bytes_max:
            break
        expected += one
    assert view.read(Offset(offset), size_bytes_max) == expected


def test_where_a_segment_is_cut() -> None:
    batches = [batch(10, count=3), batch(13, count=3)]
    _, view = view_of(batches)
    half = view.size_bytes // 2
    cuts = [view.find_end(Offset(offset)) for offset in range(9, 18)]
    assert cuts == [(0, 10)] * 4 + [(half, 13)] * 3 + [(2 * half, 16)] * 2


@pytest.mark.parametrize("bit", range(8))
@pytest.mark.parametrize("offset", range(10, 14))
def test_a_changed_byte_is_never_served(offset: int, bit: int) -> None:
    """Not even a changed offset or epoch, which no CRC covers."""
    batches = [batch(at, fill=at) for at in range(10, 14)]
    fs, view = view_of(batches)
    whole = fs.read(view.path)
    size_bytes = len(batches[0][1])
    for position in range(len(whole)):
        changed = bytearray(whole)
        changed[position] ^= 1 << bit
        fs.write(view.path, bytes(changed))
        try:
            found = view.read(Offset(offset), 1000)
        except CorruptionError as error:
            assert error.path == str(view.path)
        else:
            start = (offset - 10) * size_bytes
            assert found
            assert whole[start:].startswith(found)
            assert position < start or position // size_bytes * size_bytes >= start + len(found)


def test_a_file_that_became_shorter_is_corrupt() -> None:
    batches = run_of(10, 4)
    fs, view = view_of(batches)
    whole = fs.read(view.path)
    for end in range(len(whole)):
        fs.write(view.path, whole[:end])
        with pytest.raises(CorruptionError):
            view.read(Offset(13), 1000)


def test_a_hole_is_corrupt() -> None:
    batches = [batch(10), batch(11), batch(13)]
    fs, view = view_of(run_of(10, 3))
    fs.write(view.path, b"".join(bytes_of(batches)))
    with pytest.raises(CorruptionError, match="expected offset 12, found offset 13"):
        view.read(Offset(12), 1)
    assert view.read(Offset(10), 1000) == b"".join(bytes_of(batches[:2]))
    fs.write(view.path, b"".join(bytes_of(run_of(10, 2) + run_of(10, 1))))
    with pytest.raises(CorruptionError, match="expected offset 12, found offset 10"):
        view.read(Offset(12), 1)


def test_what_is_sound_before_the_damage_is_read() -> None:
    batches = run_of(10, 4)
    fs, view = view_of(batches)
    size_bytes = len(batches[0][1])
    changed = bytearray(fs.read(view.path))
    changed[2 * size_bytes + 70] ^= 1
    fs.write(view.path, bytes(changed))
    assert view.read(Offset(10), 1000) == b"".join(bytes_of(batches[:2]))
    assert view.find_end(Offset(12)) == (2 * size_bytes, 12)
    with pytest.raises(CorruptionError, match="expected a sound batch"):
        view.read(Offset(12), 1000)


def test_an_epoch_that_was_not_written_there_is_damage_although_no_crc_says_so() -> None:
    batches = run_of(10, 4)
    fs, view = view_of(batches)
    fs.write(view.path, b"".join(bytes_of([*batches[:2], batch(12, epoch=2), batches[3]])))
    assert view.read(Offset(10), 1000) == b"".join(bytes_of(batches[:2]))
    with pytest.raises(CorruptionError, match="expected epoch 1, found epoch 2"):
        view.read(Offset(12), 1000)


@pytest.mark.parametrize("wrong", [(1, 1, 1, 1, 1, 1), (1, 1, 1, 1, 2, 2), (1, 1, 2, 2, 2, 2)])
def test_batches_that_agree_on_a_wrong_epoch_are_damage_from_the_first_one_on(wrong: tuple[int, ...]) -> None:
    right = (1, 1, 2, 2, 3, 3)
    fs, view = view_of([batch(10 + at, epoch=epoch) for at, epoch in enumerate(right)])
    starts = [
        EpochStart(epoch=Epoch(epoch), start_offset=Offset(offset)) for epoch, offset in ((1, 10), (2, 12), (3, 14))
    ]
    written = bytes_of([batch(10 + at, epoch=epoch) for at, epoch in enumerate(wrong)])
    fs.write(view.path, b"".join(written))
    sound = next(at for at, pair in enumerate(zip(right, wrong, strict=True)) if len(set(pair)) > 1)
    assert replace(view, epochs=starts).read(Offset(10), 1000) == b"".join(written[:sound])


@pytest.mark.parametrize(("at", "changed_to"), [(10, 11), (10, 12), (11, 13), (12, 10)])
def test_an_offset_that_was_not_written_there_is_damage_although_no_crc_says_so(at: int, changed_to: int) -> None:
    """Else another record would be served at this offset, and a cut would remove acknowledged ones."""
    fs, view = view_of(run_of(10, 5), index_interval_bytes=10_000)
    changed = bytearray(fs.read(view.path))
    position = (at - 10) * view.size_bytes // 5
    changed[position : position + 8] = changed_to.to_bytes(8, "big")
    fs.write(view.path, bytes(changed))
    said = f"expected offset {at}, found offset {changed_to}"
    with pytest.raises(CorruptionError, match=said):
        view.read(Offset(max(at, changed_to)), 1)
    with pytest.raises(CorruptionError, match=said):
        view.find_end(Offset(max(at, changed_to) + 1))


def test_an_offset_that_was_not_written_where_the_index_leads_is_damage() -> None:
    fs, view = view_of([batch(10, count=3), batch(13, count=3), batch(16, count=3)], index_interval_bytes=0)
    changed = bytearray(fs.read(view.path))
    changed[view.size_bytes // 3 + 7] = 14
    fs.write(view.path, bytes(changed))
    with pytest.raises(CorruptionError, match="expected offset 13, found offset 14"):
        view.read(Offset(15), 1)
    assert view.read(Offset(18), 1) == batch(16, count=3)[1]


@pytest.mark.parametrize("cut", range(10, 15))
def test_the_end_of_a_cut_is_found_without_a_look_at_what_lies_behind_it(cut: int) -> None:
    batches = run_of(10, 4)
    fs, view = view_of(batches)
    size_bytes = len(batches[0][1])
    kept = (cut - 10) * size_bytes
    fs.write(view.path, fs.read(view.path)[:kept] + bytes(view.size_bytes - kept))
    assert view.find_end(Offset(cut)) == (kept, cut)


SYNC = ("sync", "recovery-point")


@pytest.mark.parametrize(("size_bytes", "flushes"), [(100, POINT_FLUSHES_MAX), (POINT_SIZE_BYTES_MAX, 1)])
def test_a_busy_writer_syncs_the_recovery_point_now_and_then(size_bytes: int, flushes: int) -> None:
    fs = ScriptedDisk()
    log, _ = open_log(fs, ONE)
    fill(log, run_of(0, 1))
    log.settle()
    for at in range(2 * flushes):
        fs.operations.clear()
        fill(log, run_of(1 + at, 1, size_bytes=size_bytes))
        assert (SYNC in fs.operations) == (at > 0 and (at + 1) % flushes == 0)
    fs.power_loss(Random(1))
    point = RecoveryPoint.open(fs, DIRECTORY)
    assert point is not None
    assert point.offset >= log.end_offset - flushes - 1


@pytest.mark.parametrize(("size_bytes", "flushes"), [(100, POINT_FLUSHES_MAX // 2), (POINT_SIZE_BYTES_MAX, 1)])
def test_no_flush_waits_for_it_if_the_log_is_relieved_in_between(size_bytes: int, flushes: int) -> None:
    fs = ScriptedDisk()
    log, _ = open_log(fs, ONE)
    fill(log, run_of(0, 1))
    log.settle()
    for at in range(4 * flushes):
        fs.operations.clear()
        fill(log, run_of(1 + at, 1, size_bytes=size_bytes))
        assert SYNC not in fs.operations
        log.relieve()
        assert (SYNC in fs.operations) == ((at + 1) % flushes == 0)

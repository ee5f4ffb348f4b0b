"""One segment: staged writes, its end, its truncation, and when each of its files changes.

Source: Kafka's ``LogSegment``.
"""

from __future__ import annotations

import pytest

from pykraft.errors import ReadError
from pykraft.log import segment
from pykraft.log.open_files import OpenFiles
from pykraft.log.segment import Segment, SegmentContent
from pykraft.sim.machine.disk import VirtualFile
from pykraft.types import Offset
from tests.disks import ScriptedDisk
from tests.log.logs import DIRECTORY, EPOCH_1, SMALL, Batch, batch, bytes_of, run_of

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

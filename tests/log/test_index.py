"""The index rule, compared with the index files that Kafka wrote for its own logs."""

from pathlib import Path

import pytest

from pykraft.config import LogSettings
from pykraft.log.index import OFFSET_ENTRY, TIME_ENTRY, IndexFile, SegmentIndex
from pykraft.log.os_fs import OsFs
from pykraft.log.scan import scan_file
from pykraft.types import Offset
from tests.disks import ScriptedDisk
from tests.log.logs import batch

GOLDEN = Path(__file__).parent.parent / "golden"
RESTARTS = {("raft", "n1", 0): [479], ("dynamic", "n1", 93): [99], ("dynamic", "n2", 93): [113]}
"""Segments during which Kafka was stopped, and at which log end: its producer snapshots tell."""


def golden_logs() -> list[Path]:
    logs = [path for path in GOLDEN.glob("*/disk/n*/data/*/*.log") if path.with_suffix(".index").exists()]
    assert len(logs) == 21
    return sorted(logs)


@pytest.mark.parametrize("path", golden_logs(), ids=lambda path: "-".join([*path.parts[-6:-3:2], path.stem[-3:]]))
def test_an_index_built_from_kafkas_log_is_kafkas_index(path: Path) -> None:
    base_offset = Offset(int(path.stem))
    restarts = RESTARTS.get((path.parts[-6], path.parts[-4], base_offset), [])
    index = SegmentIndex(base_offset, LogSettings().index_interval_bytes)
    for position, header in scan_file(path, OsFs().open(path), 0, path.stat().st_size):
        if header.base_offset in restarts:
            index.finish()
            index.reopen()
        index.observe(header, position)
    index.finish()
    assert index.offset_bytes() == path.with_suffix(".index").read_bytes()
    assert index.time_bytes() == path.with_suffix(".timeindex").read_bytes()


def built(count: int, *, interval_bytes: int = 0) -> tuple[SegmentIndex, dict[Offset, int]]:
    """An index over batches of two records, from offset 100 on, and the position of each last offset."""
    index, position = SegmentIndex(Offset(100), interval_bytes), 0
    positions: dict[Offset, int] = {}
    for at in range(count):
        header, _ = batch(100 + 2 * at, count=2, time=at)
        index.observe(header, position)
        positions[header.last_offset] = position
        position += header.size_bytes
    return index, positions


def test_a_lookup_finds_the_last_entry_at_or_before_an_offset() -> None:
    index, positions = built(5)
    assert index.offsets_count == 4
    for delta in range(12):
        entries = [(at, last - 100) for last, at in positions.items() if last - 100 <= delta and at > 0]
        assert index.lookup.entry_before(delta) == (entries[-1] if entries else (0, None))


def test_no_entry_before_more_than_the_interval() -> None:
    size_bytes = batch(100, count=2)[0].size_bytes
    assert built(9, interval_bytes=2 * size_bytes)[0].offsets_count == 2
    assert built(9, interval_bytes=2 * size_bytes - 1)[0].offsets_count == 4


def test_a_timestamp_gets_an_entry_only_above_the_last() -> None:
    index = SegmentIndex(Offset(0), 0)
    for at, time in enumerate((5, 3, 9, 9, 1)):
        index.observe(batch(at, time=time)[0], 100 * at)
    index.finish()
    entries = [TIME_ENTRY.unpack_from(index.time_bytes(), 12 * at) for at in range(index.times_count)]
    assert entries == [(1_000_005, 0), (1_000_009, 2)]


def test_truncation_drops_entries_and_leaves_readers_theirs() -> None:
    index, positions = built(6)
    before = index.lookup
    kept_position = index.truncate_to(Offset(105))
    assert kept_position == positions[Offset(103)]
    assert OFFSET_ENTRY.unpack(index.offset_bytes()) == (3, positions[Offset(103)])
    assert index.times_count == 1
    assert before.entry_before(11) == (positions[Offset(111)], 11)
    assert index.truncate_to(Offset(100)) == 0
    assert (index.offset_bytes(), index.time_bytes()) == (b"", b"")


def test_bytes_from_an_entry_on() -> None:
    index, _ = built(5)
    assert index.offset_bytes(2) == index.offset_bytes()[16:]
    assert index.time_bytes(3) == index.time_bytes()[36:]


def test_an_index_file_is_preallocated_extended_and_cut() -> None:
    fs = ScriptedDisk()
    path = Path("/data/0.index")
    fs.prepare(path.parent)
    file = IndexFile(fs.open(path, create=True), OFFSET_ENTRY, 43)
    file.cut_to(0, preallocate=True)
    assert fs.read(path) == bytes(40)
    file.write(b"a" * 8)
    file.write(b"b" * 16)
    file.write(b"")
    assert (fs.read(path), file.count) == (b"a" * 8 + b"b" * 16 + bytes(16), 3)
    file.cut_to(1, preallocate=True)
    file.write(b"c" * 8)
    assert fs.read(path) == b"a" * 8 + b"c" * 8 + bytes(24)
    file.cut_to(2, preallocate=False)
    assert fs.read(path) == b"a" * 8 + b"c" * 8
    file.sync()
    file.close()


def test_more_entries_than_preallocated_are_kept() -> None:
    fs = ScriptedDisk()
    path = Path("/data/0.index")
    fs.prepare(path.parent)
    file = IndexFile(fs.open(path, create=True), OFFSET_ENTRY, 16)
    file.write(b"a" * 40)
    file.cut_to(4, preallocate=True)
    assert fs.read(path) == b"a" * 32

"""A part of a segment is compared with the entries of the indexes about it, and with no others.

Source: Kafka's ``LogSegment``.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from pykraft.log.offline.verify_findings import Findings
from pykraft.log.offline.verify_index import OffsetIndexCheck, TimeIndexCheck
from pykraft.log.offline.verify_segment import SegmentCheck
from pykraft.log.os_fs import OsFs
from pykraft.protocol.batch import scan
from pykraft.types import Offset
from tests.log.data_directory import flip, make_node, segments


def check(path: Path, first: int, last: int) -> list[tuple[str, int]]:
    """Findings of a part that has the batches with these numbers, the last one excluded."""
    fs, findings, base = OsFs(), Findings(), Offset(int(path.stem))
    batches = list(scan(path.read_bytes()))
    start, end = batches[first][0], batches[last][0]
    index_path, times_path = path.with_suffix(".index"), path.with_suffix(".timeindex")
    with closing(fs.open(path)) as file, closing(fs.open(index_path)) as index, closing(fs.open(times_path)) as times:
        segment = SegmentCheck(path, file, end)
        segment.index = OffsetIndexCheck(index_path, index, base, findings)
        segment.times = TimeIndexCheck(times_path, times, base, findings)
        segment.begin_at(start, batches[first][1].base_offset)
        for position, header in batches[first:last]:
            segment.saw(position, header)
        segment.end_part()
        assert segment.seen_until == end
    return [(one.path.suffix, one.position) for one in findings.damage]


def test_each_part_has_its_own_entries(tmp_path: Path) -> None:
    path = segments(make_node(tmp_path))[1]
    assert check(path, 4, 12) == []
    # The fourth entry is about the eighth batch, or a later one.
    flip(path.with_suffix(".index"), 3 * 8 + 3)
    flip(path.with_suffix(".timeindex"), 3 * 12 + 7)
    parts = [check(path, first, first + 4) for first in range(0, 20, 4)]
    found = [one for part in parts for one in part]
    assert (".index", 24) in found
    assert (".timeindex", 36) in found
    assert check(path, 0, 4) == []


def test_an_entry_within_the_last_batch_is_found_by_its_part(tmp_path: Path) -> None:
    path = segments(make_node(tmp_path))[1]
    batches = list(scan(path.read_bytes()))
    index = path.with_suffix(".index")
    content = bytearray(index.read_bytes())
    # The first entry points into the middle of the fourth batch.
    content[4:8] = (batches[3][0] + 5).to_bytes(4, "big")
    index.write_bytes(content)
    assert (".index", 0) in check(path, 0, 4)
    assert (".index", 0) not in check(path, 4, 8)

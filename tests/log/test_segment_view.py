"""What a reader of one segment gets, and every way in which the bytes can be wrong.

Source: Kafka's ``LogSegment.read``.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.errors import CorruptionError
from pykraft.log.open_files import OpenFiles
from pykraft.log.segment import Segment, SegmentContent
from pykraft.log.segment_view import SegmentView
from pykraft.types import Offset
from tests.disks import ScriptedDisk
from tests.log.logs import DIRECTORY, EPOCH_1, SMALL, Batch, batch, bytes_of, run_of


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

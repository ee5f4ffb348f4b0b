"""The first byte that differs is found wherever segments begin; an index that lies leads to no batch.

Source: ours; Kafka's ``OffsetIndex.lookup``.
"""

import shutil
from pathlib import Path

import pytest

from pykraft.audit.narrow import ByteDifference, NarrowTask, batch_before, batch_from, first_difference
from pykraft.log.os_fs import OsFs
from pykraft.types import Offset
from tests.audit.planted import batches
from tests.log.data_directory import flip, make_node, segments
from tests.spark.logs import three_batches, write_segment


def differs(reference: Path, other: Path, start: int = 0, end: int = 10**6) -> ByteDifference | None:
    task = NarrowTask(reference=reference, other=other, start_offset=Offset(start), end_offset=Offset(end))
    return first_difference(OsFs(), task)


def test_the_byte_is_found_in_its_segment(tmp_path: Path) -> None:
    reference = make_node(tmp_path / "one")
    other = tmp_path / "other"
    shutil.copytree(reference, other)
    assert differs(reference, other) is None
    path = segments(other)[1]
    position, header = batches(path)[3]
    flip(path, position + 90)
    found = differs(reference, other)
    assert found is not None
    assert (found.path, found.position, found.offset) == (path, position + 90, header.base_offset)
    assert (found.reference_path.name, found.reference_position) == (path.name, position + 90)
    # The other one has no sound batch there; the other way round the reference has none.
    assert (found.epoch, found.reference_epoch) == (None, 1)
    assert differs(other, reference) is None
    assert differs(reference, other, start=header.end_offset) is None
    assert differs(reference, other, end=header.base_offset) is None


def test_segments_may_begin_elsewhere_and_a_log_may_end_earlier(tmp_path: Path) -> None:
    one, two, three = three_batches()
    write_segment(tmp_path / "a", one + two + three)
    write_segment(tmp_path / "b", one)
    write_segment(tmp_path / "b", two + three, base_offset=2)
    assert differs(tmp_path / "a", tmp_path / "b") is None
    write_segment(tmp_path / "b", two, base_offset=2)
    assert differs(tmp_path / "a", tmp_path / "b") is None
    write_segment(tmp_path / "b", three, base_offset=2)
    found = differs(tmp_path / "a", tmp_path / "b")
    assert found is not None
    # The offset is the last byte of eight.
    assert (found.path.name, found.position, found.offset) == ("00000000000000000002.log", 7, 2)


def test_a_log_without_a_segment_has_nothing_to_compare(tmp_path: Path) -> None:
    write_segment(tmp_path / "a", three_batches()[0])
    (tmp_path / "b").mkdir()
    assert differs(tmp_path / "a", tmp_path / "b") is None


@pytest.fixture
def segment(tmp_path: Path) -> Path:
    return segments(make_node(tmp_path))[1]


def base_of(path: Path) -> Offset:
    return Offset(int(path.stem))


def found_from(path: Path, cut: int) -> tuple[int, Offset] | None:
    return batch_from(OsFs(), path.parent, base_of(path), cut, path.stat().st_size)


def test_the_first_batch_at_or_after_a_cut_is_found(segment: Path) -> None:
    places = [(position, header.base_offset) for position, header in batches(segment)]
    for cut in range(0, segment.stat().st_size, 37):
        wanted = next((place for place in places if place[0] >= cut), None)
        assert found_from(segment, cut) == wanted


def test_a_wrong_index_leads_nowhere(segment: Path) -> None:
    cut = segment.stat().st_size // 2
    assert found_from(segment, cut) is not None
    index = segment.with_suffix(".index")
    for position in range(0, len(index.read_bytes().rstrip(b"\0")), 8):
        flip(index, position + 3)
    assert found_from(segment, cut) is None
    index.unlink()
    assert found_from(segment, cut) is not None


def test_a_damaged_header_on_the_way_leads_nowhere(segment: Path) -> None:
    places = [position for position, _ in batches(segment)]
    segment.with_suffix(".index").unlink()
    flip(segment, places[2] + 16)
    assert found_from(segment, places[1]) is not None
    assert found_from(segment, places[3]) is None


def test_the_batch_before_an_offset_is_the_last_one_that_the_headers_lead_to(segment: Path) -> None:
    found = batches(segment)
    size = segment.stat().st_size
    for position, header in found:
        assert batch_before(OsFs(), segment.parent, base_of(segment), header.base_offset, size) == (
            position,
            header.base_offset,
        )
    segment.with_suffix(".index").unlink()
    flip(segment, found[2][0] + 16)
    place = batch_before(OsFs(), segment.parent, base_of(segment), found[5][1].base_offset, size)
    assert place == (found[1][0], found[1][1].base_offset)

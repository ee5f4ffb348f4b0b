"""The first byte that differs is found wherever segments begin; an index that lies leads to no batch."""

import shutil
from pathlib import Path

import pytest

from pykraft.audit.narrow import ByteDifference, NarrowTask, batch_before, first_difference
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


def place_before(path: Path, offset: int) -> tuple[int, Offset]:
    return batch_before(OsFs(), path.parent, base_of(path), Offset(offset), path.stat().st_size)


def test_a_wrong_index_leads_to_the_first_batch(segment: Path) -> None:
    position, header = batches(segment)[-1]
    assert place_before(segment, header.base_offset) == (position, header.base_offset)
    index = segment.with_suffix(".index")
    for at in range(0, len(index.read_bytes().rstrip(b"\0")), 8):
        flip(index, at + 3)
    assert place_before(segment, header.base_offset) == (0, base_of(segment))
    index.unlink()
    assert place_before(segment, header.base_offset) == (position, header.base_offset)


def test_the_batch_before_an_offset_is_the_last_one_that_the_headers_lead_to(segment: Path) -> None:
    found = batches(segment)
    for position, header in found:
        assert place_before(segment, header.base_offset) == (position, header.base_offset)
    segment.with_suffix(".index").unlink()
    flip(segment, found[2][0] + 16)
    assert place_before(segment, found[5][1].base_offset) == (found[1][0], found[1][1].base_offset)

"""The first byte that differs is found, also where the segments of two replicas begin at other offsets.

Source: ours.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pykraft.audit.narrow import ByteDifference, NarrowTask, first_difference
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

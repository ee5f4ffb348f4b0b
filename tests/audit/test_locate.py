"""Places of batches are found through the index, and never through one that lies.

Source: Kafka's ``OffsetIndex.lookup``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.audit.locate import batch_before, batch_from
from pykraft.log.os_fs import OsFs
from pykraft.types import Offset
from tests.audit.planted import batches
from tests.log.data_directory import flip, make_node, segments


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

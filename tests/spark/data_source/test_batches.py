"""Rows of batches hold the batches as they are on disk, byte for byte."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition

from pykraft.errors import CorruptionError
from pykraft.protocol.batch import crc_of, read_header, scan
from pykraft.spark.data_source import batches
from pykraft.spark.data_source.batches import SplitPartition, batches_of, read_split
from pykraft.spark.data_source.options import parse_options
from pykraft.spark.data_source.selection import Selection, arrow_schema, columns_for, select
from pykraft.spark.data_source.splits import Bounds, Split
from pykraft.types import Offset
from tests.spark.logs import START_MS, batch, three_batches, write_segment

pytestmark = pytest.mark.spark

TESTS = Path(__file__).parents[2]
GOLDEN = TESTS / "golden" / "static" / "disk" / "n1" / "data" / "__cluster_metadata-0" / "00000000000000000000.log"


def split_of(data: bytes, *, position: int = 0) -> Split:
    return Split(replica="n1", path="p-0/1.log", position=position, end_position=position + len(data))


def rows(split: Split, data: bytes, *, tolerant: bool = False) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for group in batches_of(split, data, tolerant=tolerant):
        assert group.schema.equals(arrow_schema("batches"), check_metadata=True)
        group.validate(full=True)
        found += group.to_pylist()
    return found


@pytest.mark.parametrize("rows_max", [1, 3, 4_096])
def test_every_batch_is_a_row_with_its_bytes(rows_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "ROWS_MAX", rows_max)
    data = GOLDEN.read_bytes() + b"".join(path.read_bytes() for path in (TESTS / "protocol" / "batches").glob("*.bin"))
    found = rows(split_of(data, position=100), data)
    expected = list(scan(data))
    assert b"".join(row["content"] for row in found) == data
    for row, (position, header) in zip(found, expected, strict=True):
        assert (row["position"], row["batch_size"]) == (100 + position, header.size_bytes)
        assert (row["base_offset"], row["last_offset"]) == (header.base_offset, header.last_offset)
        assert (row["epoch"], row["records_count"], row["crc"]) == (header.epoch, header.records_count, header.crc)
        assert row["max_timestamp"].timestamp() * 1_000 == header.max_timestamp
        assert row["is_control"] is header.is_control
        assert row["corrupt"] is None
    assert {row["compression"] for row in found} >= {"none", "gzip", "snappy", "lz4", "zstd"}


@pytest.mark.parametrize(("start", "end", "bases"), [(0, 6, [0, 2, 4]), (1, 3, [0, 2]), (2, 4, [2]), (6, 6, [])])
def test_a_batch_is_wanted_when_one_of_its_records_is(start: int, end: int, bases: list[int]) -> None:
    data = b"".join(three_batches())
    split = replace(split_of(data), start_offset=Offset(start), end_offset=Offset(end))
    assert [row["base_offset"] for row in rows(split, data)] == bases


def test_a_flipped_byte_is_an_error_or_a_row() -> None:
    first, second, third = three_batches()
    data = first + second[:-1] + b"!" + third
    with pytest.raises(CorruptionError, match="expected a valid batch"):
        rows(split_of(data), data)
    found = rows(split_of(data), data, tolerant=True)
    assert [row["base_offset"] for row in found] == [0, 2, 4]
    assert [row["corrupt"] is None for row in found] == [True, False, True]
    assert (found[1]["content"], found[1]["batch_size"]) == (None, len(second))
    assert b"".join(row["content"] for row in found if row["content"]) == first + third


def test_a_time_that_the_column_cannot_hold_is_an_error_with_its_place() -> None:
    first, second, _ = three_batches()
    far = second[:27] + (2**62).to_bytes(8, "big") * 2 + second[43:]
    far = far[:17] + crc_of(far, 0, read_header(far)).to_bytes(4, "big") + far[21:]
    assert START_MS < 2**62
    with pytest.raises(CorruptionError, match="one of the time") as caught:
        rows(split_of(first + far), first + far)
    assert caught.value.position == len(first)


def test_some_columns_of_some_batches() -> None:
    """A batch in the middle is left out: those around it stand in row groups of their own."""
    data = b"".join(batch([b"a", b"b"], base_offset=2 * at, timestamp_ms=START_MS + at % 2) for at in range(4))
    schema = pa.schema([arrow_schema("batches").field(name) for name in ("content", "base_offset")])
    selection = Selection(schema=schema, bounds=Bounds(timestamp_ms_min=START_MS + 1))
    found = [row for group in batches_of(split_of(data), data, selection=selection) for row in group.to_pylist()]
    assert [row["base_offset"] for row in found] == [2, 6]
    size_bytes = len(data) // 4
    assert [row["content"] for row in found] == [data[at * size_bytes :][:size_bytes] for at in (1, 3)]


def read(partition: InputPartition, **options: str) -> list[dict[str, Any]]:
    parsed = parse_options({"path": "p-0"} | options)
    return [
        row for group in read_split(partition, parsed, select(columns_for(parsed), parsed)) for row in group.to_pylist()
    ]


def whole(segment: Path) -> SplitPartition:
    return SplitPartition(Split(replica="n1", path=str(segment), position=0, end_position=segment.stat().st_size))


def test_rows_of_records_and_of_batches(tmp_path: Path) -> None:
    partition = whole(write_segment(tmp_path, b"".join(three_batches())))
    assert [row["offset"] for row in read(partition)] == list(range(6))
    assert [row["base_offset"] for row in read(partition, rows="batches")] == [0, 2, 4]


@pytest.mark.parametrize(("rows", "count"), [("records", 5), ("batches", 3)])
def test_damage_ends_the_task_unless_it_is_to_be_marked(rows: str, count: int, tmp_path: Path) -> None:
    first, second, third = three_batches()
    partition = whole(write_segment(tmp_path, first + second[:-1] + b"!" + third))
    with pytest.raises(CorruptionError):
        read(partition, rows=rows)
    found = read(partition, rows=rows, corrupt="mark")
    assert len(found) == count
    assert len([row for row in found if row["corrupt"]]) == 1


def test_what_the_walk_found_damaged_is_one_row(tmp_path: Path) -> None:
    split = Split(
        replica="n1",
        path=str(tmp_path / "1.log"),
        position=7,
        end_position=90,
        start_offset=Offset(4),
        damage="no batch",
    )
    (row,) = read(SplitPartition(split), corrupt="mark")
    assert (row["position"], row["batch_size"], row["offset"], row["corrupt"]) == (7, 83, 4, "no batch")


def test_a_partition_without_a_split_has_no_row() -> None:
    assert read(InputPartition(None)) == []

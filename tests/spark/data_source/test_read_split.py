"""What a task does with its split: rows of records or of batches, and one row for damage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import InputPartition

from pykraft.errors import CorruptionError
from pykraft.spark.data_source.options import parse_options
from pykraft.spark.data_source.read_split import SplitPartition, read_split
from pykraft.spark.data_source.schema import columns_for
from pykraft.spark.data_source.selection import select
from pykraft.spark.data_source.splits import Split
from pykraft.types import Offset
from tests.spark.logs import three_batches, write_segment

pytestmark = pytest.mark.spark


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

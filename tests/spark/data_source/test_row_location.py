"""The content of a split: sound batches, and damage that is an error or a row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pykraft.errors import CorruptionError
from pykraft.spark.data_source.row_location import (
    COLUMN_MADE,
    INT32_MAX,
    DamagedBytes,
    constant,
    damage_row,
    location_columns,
    sound_batches,
)
from pykraft.spark.data_source.schema import arrow_schema
from pykraft.spark.data_source.splits import Split
from pykraft.types import Offset
from tests.spark.logs import three_batches

pytestmark = pytest.mark.spark

FIRST, SECOND, THIRD = three_batches()
PIECE = Split(replica="n1", path=str(Path("data") / "p-0" / "1.log"), position=100, end_position=1_000)


def sound(data: bytes, *, tolerant: bool = False) -> list[int | tuple[int, int, int]]:
    """Position of each batch; position, size and offset of damage."""
    found: list[int | tuple[int, int, int]] = []
    for one in sound_batches(PIECE, data, tolerant=tolerant):
        found += (
            [(one.position, one.size_bytes, one.offset)] if isinstance(one, DamagedBytes) else one.positions.tolist()
        )
    return found


def test_whole_batches_come_one_after_the_other() -> None:
    assert sound(FIRST + SECOND) == [0, len(FIRST)]
    assert sound(b"") == []


@pytest.mark.parametrize(
    "damage", [SECOND[:-1] + b"!", SECOND[:30], b"!" * 80, b"!"], ids=["crc", "cut", "none", "few"]
)
def test_damage_is_an_error_with_file_and_position(damage: bytes) -> None:
    with pytest.raises(CorruptionError, match="expected a valid batch") as caught:
        sound(FIRST + damage)
    assert (caught.value.path, caught.value.position) == (PIECE.path, 100 + len(FIRST))


def test_who_wants_to_go_on_is_told_where_and_at_which_offset() -> None:
    data = FIRST + SECOND[:-1] + b"!" + THIRD + b"!" * 70
    here = len(FIRST)
    end = here + len(SECOND) + len(THIRD)
    assert sound(data, tolerant=True) == [0, (here, len(SECOND), 2), here + len(SECOND), (end, 70, 6)]


@pytest.mark.parametrize("rows", ["records", "batches"])
def test_a_row_of_damage_is_null_but_for_place_size_offset_and_text(rows: str) -> None:
    damage = DamagedBytes(position=5, size_bytes=2**40, offset=Offset(7), text="wrong")
    row = damage_row(PIECE, damage, arrow_schema(rows))
    assert row.schema.equals(arrow_schema(rows), check_metadata=True)
    (known,) = ({name: value for name, value in each.items() if value is not None} for each in row.to_pylist())
    place = {"replica": "n1", "segment": "1.log", "position": 105, "batch_size": INT32_MAX, "corrupt": "wrong"}
    assert known == place | {"offset" if rows == "records" else "base_offset": 7}


def test_columns_of_the_place() -> None:
    columns = location_columns(PIECE, np.array([1, 2]))
    assert {name: column.to_pylist() for name, column in columns.items()} == {
        "replica": ["n1", "n1"],
        "segment": ["1.log", "1.log"],
        "position": [1, 2],
        "topic": ["p", "p"],
        "partition": [0, 0],
    }


@pytest.mark.parametrize(
    ("folder", "topic", "partition"),
    [("__cluster_metadata-0", "__cluster_metadata", 0), ("a-b-12", "a-b", 12), ("copy", "copy", 0), ("n-x", "n-x", 0)],
)
def test_a_partition_directory_names_topic_and_partition(folder: str, topic: str, partition: int) -> None:
    columns = location_columns(replace(PIECE, path=f"{folder}/1.log"), np.array([0]))
    assert (columns["topic"].to_pylist(), columns["partition"].to_pylist()) == ([topic], [partition])


def test_a_live_quorum_has_the_topic_that_kafka_s_tools_ask_for() -> None:
    columns = location_columns(replace(PIECE, replica=None), np.array([0]))
    assert [columns[name].to_pylist() for name in ("topic", "partition", "segment")] == [
        ["__cluster_metadata"],
        [0],
        [None],
    ]


@pytest.mark.parametrize("value", ["text", 5, None])
def test_a_column_of_one_value_has_as_many_rows_as_asked_for(value: str | int | None) -> None:
    for count in (0, 3, COLUMN_MADE, COLUMN_MADE + 1):
        column = constant(value, count)
        assert len(column) == count
        assert set(column.to_pylist()) <= {value}

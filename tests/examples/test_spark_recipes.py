"""The recipes of docs/spark.md, over logs of known orders."""

from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from pykraft.protocol.batch import place_batch, read_header
from pykraft.types import Epoch, Offset
from tests.spark.logs import write_segment
from tests.spark.metadata.test_directory import STATIC, folder
from tests.spark.sink.sinks import TIME_MS, batches_of
from tests.tidy.repository import ROOT

pytestmark = pytest.mark.spark

SPEC = spec_from_file_location("spark_recipes", ROOT / "examples" / "spark_recipes.py")
assert SPEC is not None
assert SPEC.loader is not None
recipes: Any = module_from_spec(SPEC)
SPEC.loader.exec_module(recipes)
ORDERS = [
    (b"a", b'{"total": 1}'),
    (b"b", b'{"total": 2, "note": "new field", "other": 1}'),
    (b"c", b"not JSON"),
    (b"a", b'{"total": 3}'),
    (b"b", None),
]


def log(folder: Path, records: Sequence[tuple[bytes, bytes | None]], *, late_ms: int = 0) -> str:
    keys, values = zip(*records, strict=True)
    times_us = [1_000 * (TIME_MS + late_ms)] * len(values)
    ((batch, _),) = batches_of(0, values, keys, times_us=times_us, size_bytes_max=10_000)
    placed = place_batch(read_header(batch), batch, base_offset=Offset(0), epoch=Epoch(1))
    return str(write_segment(folder, placed.data).parent)


def records_of(spark: SparkSession, path: str) -> DataFrame:
    return spark.read.format("pykraft").option("columns", "kafka").load(path)


def rows_of(path: Path, *columns: str) -> list[tuple[Any, ...]]:
    table = DeltaTable(path).to_pyarrow_table(columns=list(columns))
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_a_changelog_becomes_a_table_and_dead_letters_whatever_is_repeated(spark: SparkSession, tmp_path: Path) -> None:
    path = log(tmp_path / "orders-0", ORDERS)
    found = recipes.orders(records_of(spark, path))
    merge = recipes.merge_into(tmp_path)
    merge(found.where("offset < 4"), 0)
    assert rows_of(tmp_path / "orders", "id", "total", "note") == [("a", 3.0, None), ("b", 2.0, "new field")]
    for batch_id in (1, 0, 1):
        merge(found.where("offset >= 2" if batch_id else "offset < 4"), batch_id)
    assert rows_of(tmp_path / "orders", "id", "offset", "total") == [("a", 3, 3.0), ("b", 4, None)]
    assert rows_of(tmp_path / "dead_letters", "id", "offset", "raw") == [("c", 2, "not JSON")]


def test_orders_of_two_quorums_are_joined(spark: SparkSession, tmp_path: Path) -> None:
    orders = log(tmp_path / "orders-0", [(b"a", b'{"total": 1}'), (b"b", b'{"total": 2}')])
    paid = log(tmp_path / "paid-0", [(b"a", b'{"total": 9}')], late_ms=60_000)
    late = log(tmp_path / "late-0", [(b"b", b'{"total": 9}')], late_ms=6_000_000)
    first, *others = (recipes.orders(records_of(spark, path)) for path in (orders, paid, late))
    found = recipes.paid(first, others[0].union(others[1])).collect()
    assert [tuple(row) for row in found] == [("a", 1.0, 9.0)]


def test_the_metadata_log_says_where_partitions_got_leaders(spark: SparkSession) -> None:
    source = spark.read.format("pykraft").option("columns", "metadata").load(str(folder(STATIC / "n1")))
    found = recipes.leaders(source).select("topicId", "partitionId", "leader").collect()
    assert found
    assert all(row.leader is not None for row in found)

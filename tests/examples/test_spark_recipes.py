"""The recipes of docs/spark.md, over logs of known orders."""

import asyncio
import socket
import sys
from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from pykraft.cli.kv.command import kv
from pykraft.kv.service import serve
from pykraft.local.voters import HOST, free_ports
from pykraft.protocol.batch import place_batch, read_header
from pykraft.types import Endpoint, Epoch, Offset
from tests.client.nodes import alone
from tests.spark.logs import write_segment
from tests.spark.metadata.test_directory import STATIC, folder
from tests.spark.sink.sinks import TIME_MS, Sink, batches_of
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


def test_a_changelog_becomes_a_table_and_dead_letters_whatever_is_repeated(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program itself, twice; then Spark repeats its first micro-batch, as after a kill."""
    sink = Sink(tmp_path / "sink")
    monkeypatch.setattr(sys, "argv", ["spark_recipes.py", str(sink.node.endpoint), str(tmp_path)])
    for batch_id, records in enumerate((ORDERS[:4], ORDERS[4:])):
        keys, values = zip(*records, strict=True)
        sink.commit(batch_id, [sink.stage(batch_id, 0, values, keys)])
        recipes.main()
        if batch_id == 0:
            assert rows_of(tmp_path / "orders", "id", "total", "note") == [("a", 3.0, None), ("b", 2.0, "new field")]
    live = spark.read.format("pykraft").option("bootstrap.controllers", str(sink.node.endpoint))
    found = recipes.orders(live.option("columns", "kafka").load())
    start = found.agg({"offset": "min"}).head()[0]
    recipes.merge_into(tmp_path)(found.where(f"offset < {start + 4}"), 0)
    sink.node.stop()
    assert rows_of(tmp_path / "orders", "id", "offset", "total") == [("a", start + 3, 3.0), ("b", start + 4, None)]
    assert rows_of(tmp_path / "dead_letters", "id", "offset", "raw") == [("c", start + 2, "not JSON")]


def test_avro_of_a_schema_registry_becomes_orders(spark: SparkSession, tmp_path: Path) -> None:
    fields = [{"name": "total", "type": "double"}, {"name": "note", "type": ["null", "string"]}]
    schema = {"type": "record", "name": "order", "fields": fields}
    value = BytesIO()
    fastavro.schemaless_writer(value, schema, {"total": 1.5, "note": "new"})
    records = [(b"a", b"\0\0\0\0\7" + value.getvalue()), (b"b", None), (b"c", b"\0\0\0\0\7{")]
    found = recipes.avro_orders(records_of(spark, log(tmp_path / "orders-0", records)), schema)
    rows = [(row.id, row.total, row.note) for row in found.orderBy("offset").collect()]
    assert rows == [("a", 1.5, "new"), ("b", None, None), ("c", None, None)]
    assert [(row.id, row.raw) for row in recipes.dead_letters(found).collect()] == [("c", "00000000077B")]


def test_changes_of_the_key_value_store_are_merged_by_revision(spark: SparkSession, tmp_path: Path) -> None:
    """What ``pykraft kv watch`` wrote of a node."""
    [port] = free_ports(1)
    url = ["--url", f"http://{HOST}:{port}"]

    def watched() -> str:
        for words in (["put", "a", '{"total": 1}'], ["put", "b", '{"total": 2}'], ["del", "a"]):
            assert CliRunner().invoke(kv, [words[0], *url, *words[1:]]).exit_code == 0
        words = ["watch", *url, "", "--prefix", "--from", "1", "--max-changes", "3", "--json"]
        return CliRunner().invoke(kv, words).stdout

    async def main() -> str:
        serving = asyncio.ensure_future(serve(alone(tmp_path / "node"), Endpoint(HOST, port)))
        while not await asyncio.to_thread(is_open, port):
            await asyncio.wait([serving], timeout=0.01)
        told = await asyncio.to_thread(watched)
        serving.cancel()
        await asyncio.wait([serving])
        return told

    (tmp_path / "changes.jsonl").write_text(asyncio.run(main()))
    found = recipes.newest(recipes.changes(spark.read.text(str(tmp_path / "changes.jsonl"))))
    rows = sorted((row.id, row.offset, row.total) for row in found.collect())
    assert rows == [("a", 3, None), ("b", 2, 2.0)]


def is_open(port: int) -> bool:
    with socket.socket() as trial:
        return trial.connect_ex((HOST, port)) == 0


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

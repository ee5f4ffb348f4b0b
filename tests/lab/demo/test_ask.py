"""The demo's checks of real tables: clean ones pass, and each planted fault is reported as what it is."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from lab.demo.ask import ask_spark
from lab.demo.replicas import compare
from lab.demo.result import Result
from pykraft.errors import LocalQuorumError
from pykraft.spark.pipeline.run import PipelineOptions, start_pipeline
from pykraft.spark.tables.delta import DeltaTables
from pykraft.spark.tables.names import RECORDS
from tests.spark.logs import batch, payload, said, write_segment

pytestmark = pytest.mark.spark

COUNT = 8
PROMISE = said(COUNT)
Fault = Callable[[pa.Table], pa.Table]


@pytest.fixture(scope="module")
def finished(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three replicas, and the tables that the pipeline made of one."""
    folder = tmp_path_factory.mktemp("finished")
    data = b"".join(batch([payload(at), payload(at + 1)], base_offset=at) for at in range(0, COUNT, 2))
    partitions = [write_segment(folder / f"n{number}", data).parent for number in (1, 2, 3)]
    options = PipelineOptions(source={"path": str(partitions[0])}, root=folder / "tables")
    start_pipeline(spark, options).awaitTermination()
    return folder


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    """A copy of all that."""
    return shutil.copytree(finished, tmp_path / "copy")


def checked(spark: SparkSession, folder: Path) -> Result:
    """What the demo would find there."""
    partitions = {f"node {number}": folder / f"n{number}" for number in (1, 2, 3)}
    comparison = compare(partitions, [PROMISE], end_offset=COUNT)
    assert comparison.furthest is not None
    audit = ask_spark(spark, DeltaTables(folder / "tables"), comparison.furthest, [PROMISE], until_offset=COUNT)
    latency_ms = {"p50": 1.0, "p99": 1.0}
    return Result(
        audit=audit,
        comparison=comparison,
        failover_ms=None,
        seconds=1.0,
        commit_latency_ms=latency_ms,
        batch_latency_ms=latency_ms,
    )


def with_a_duplicate(rows: pa.Table) -> pa.Table:
    return pa.concat_tables([rows, rows.filter(pc.equal(rows["offset"], 5))])


def with_a_gap(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.not_equal(rows["offset"], 5))


def with_a_swapped_pair(rows: pa.Table) -> pa.Table:
    others = [{4: 5, 5: 4}.get(offset, offset) for offset in rows["offset"].to_pylist()]
    return rows.set_column(rows.schema.get_field_index("offset"), rows.schema.field("offset"), pa.array(others))


def test_clean_tables_have_no_problem(spark: SparkSession, finished: Path) -> None:
    found = checked(spark, finished)
    assert found.problems == []
    assert (found.audit.spark_rows, found.audit.committed_records) == (COUNT, COUNT)


@pytest.mark.parametrize(
    ("plant", "counts", "problem"),
    [
        (with_a_duplicate, {"duplicates": 1, "spark_rows": COUNT + 1}, "1 record duplicated in the tables"),
        (with_a_gap, {"missing": 1, "spark_rows": COUNT - 1}, "1 acknowledged record missing from the tables"),
        (
            with_a_swapped_pair,
            {"out_of_order": 1, "missing": 2, "strays": 2},
            "1 record out of order in the tables",
        ),
    ],
)
def test_a_fault_in_the_tables_is_reported(
    plant: Fault, counts: dict[str, int], problem: str, spark: SparkSession, finished: Path, copy: Path
) -> None:
    table = copy / "tables" / RECORDS
    write_deltalake(table, plant(DeltaTable(table).to_pyarrow_table()), mode="overwrite")
    found = checked(spark, copy)
    assert problem in found.problems
    clean = {"duplicates": 0, "missing": 0, "out_of_order": 0, "strays": 0, "spark_rows": COUNT}
    told = found.as_json()
    assert {name: told[name] for name in clean} == clean | counts


def test_a_flipped_byte_in_a_replica_is_reported(spark: SparkSession, copy: Path) -> None:
    (segment,) = (copy / "n1").glob("*.log")
    data = bytearray(segment.read_bytes())
    data[-3] ^= 1
    segment.write_bytes(data)
    found = checked(spark, copy)
    (problem,) = found.problems
    assert problem.startswith("the log of node 1 is damaged")
    assert not found.as_json()["replicas_identical"]
    assert replace(found, comparison=compare({"node 2": copy / "n2"}, [PROMISE], end_offset=COUNT)).problems == []


def test_what_spark_cannot_answer_is_one_line(spark: SparkSession, copy: Path) -> None:
    (segment,) = (copy / "n1").glob("*.log")
    data = segment.read_bytes()
    segment.write_bytes(data[:100] + b"!" + data[101:])
    with pytest.raises(LocalQuorumError) as caught:
        ask_spark(spark, DeltaTables(copy / "tables"), copy / "n1", [PROMISE], until_offset=COUNT)
    assert str(caught.value).startswith(f"Spark cannot continue: {segment}: at position ")
    assert "\n" not in str(caught.value)


def test_a_spark_that_ended_is_one_line(spark: SparkSession, finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise Py4JError("Answer from Java side is empty")

    monkeypatch.setattr("lab.demo.ask.acknowledged_frame", fail)
    with pytest.raises(LocalQuorumError, match="Spark cannot continue: Answer from Java side is empty"):
        ask_spark(spark, DeltaTables(finished / "tables"), finished / "n1", [PROMISE], until_offset=COUNT)

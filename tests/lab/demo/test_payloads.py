"""The audit finds nothing in clean tables, and names each planted fault."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom
from pyspark.testing import assertDataFrameEqual

from lab.demo.payloads import (
    Audit,
    acknowledged_frame,
    ask_spark,
    audit,
    do_tables_agree,
    fingerprints,
    payload_columns,
)
from lab.demo.result import Result, compare
from pykraft.errors import LocalQuorumError
from pykraft.local.journal import Acknowledged
from pykraft.protocol.records import encode_control_batch
from pykraft.spark.pipeline.run import PipelineOptions, start_pipeline
from pykraft.spark.tables.delta import DeltaTables
from pykraft.spark.tables.names import BRONZE, CONTROL, RECORDS
from pykraft.types import Epoch, KRaftVersion, Offset
from tests.lab.demo.audits import clean_audit
from tests.spark.logs import EPOCH, RUN, START_MS, batch, payload, said, write_segment
from tests.spark.silver_frames import silver_control, silver_records

pytestmark = pytest.mark.spark

BASE_OFFSET = 1
COUNT = 6
CLEAN = [payload(sequence) for sequence in range(COUNT)]
SAID = said(COUNT, base_offset=BASE_OFFSET)


def log(values: Sequence[bytes], *, later: Sequence[bytes] = ()) -> bytes:
    """A control record at offset 0, then the values two a batch, then others in the next epoch."""
    parts = [
        encode_control_batch(
            [KRaftVersion(level=0)], base_offset=Offset(0), epoch=Epoch(EPOCH), timestamp_ms=START_MS
        ).data
    ]
    offset = BASE_OFFSET
    for epoch, these in ((EPOCH, values), (EPOCH + 1, later)):
        for start in range(0, len(these), 2):
            parts.append(batch(these[start : start + 2], base_offset=offset, epoch=epoch))
            offset += len(these[start : start + 2])
    return b"".join(parts)


@dataclass(frozen=True, kw_only=True)
class TablesOfLog:
    """What the pipeline makes of a log, and the rows of the log itself."""

    tables: Mapping[str, DataFrame]
    log: DataFrame


class TablesOfLogs:
    """Makes the tables of each log once and keeps them in Spark, since most tests plant a fault into those of one."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self._folder = folder
        self._made: dict[bytes, TablesOfLog] = {}

    def of(self, data: bytes) -> TablesOfLog:
        """The tables of a log with these bytes."""
        if data not in self._made:
            self._made[data] = self._make(data)
        return self._made[data]

    def _make(self, data: bytes) -> TablesOfLog:
        partition = str(write_segment(self._folder / f"log-{len(self._made)}" / "p-0", data).parent)
        bronze = self.spark.read.format("pykraft").option("rows", "batches").load(partition).persist()
        records = silver_records(bronze).persist()
        tables = {BRONZE: bronze, RECORDS: records, CONTROL: silver_control(records).persist()}
        return TablesOfLog(tables=tables, log=self.spark.read.format("pykraft").load(partition).persist())

    def forget(self) -> None:
        """Release what Spark keeps."""
        for made in self._made.values():
            for frame in (made.log, *made.tables.values()):
                frame.unpersist()


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TablesOfLogs]:
    """One for all tests of this module."""
    found = TablesOfLogs(spark, tmp_path_factory.mktemp("logs"))
    yield found
    found.forget()


def audited(
    made: TablesOfLogs,
    data: bytes,
    *acknowledged: Acknowledged,
    plant: Callable[[DataFrame], DataFrame] = lambda records: records,
    until_offset: int | None = None,
) -> Audit:
    """The audit of tables that were made of a log; ``plant`` changes the records in them."""
    found = made.of(data)
    tables = {**found.tables, RECORDS: plant(found.tables[RECORDS])}
    end_offset = max((one.end_offset for one in acknowledged), default=0)
    frame = acknowledged_frame(made.spark, acknowledged)
    return audit(tables, found.log, frame, until_offset=end_offset if until_offset is None else until_offset)


CLEAN_AUDIT = clean_audit(COUNT)


def test_clean_tables_are_clean(made: TablesOfLogs) -> None:
    later = [payload(sequence, epoch=EPOCH + 1) for sequence in range(4)]
    more = said(2, epoch=EPOCH + 1, base_offset=BASE_OFFSET + COUNT)
    first = said(2, base_offset=BASE_OFFSET), said(4, first_sequence=2, base_offset=3)
    found = audited(made, log(CLEAN, later=later), *first, more)
    assert found == replace(CLEAN_AUDIT, committed_records=8, acknowledged=8, spark_rows=8, leader_epochs=2)


def test_a_row_that_is_there_twice_is_a_duplicate(made: TablesOfLogs) -> None:
    def twice(records: DataFrame) -> DataFrame:
        return records.unionAll(records.where("offset = 3"))

    found = audited(made, log(CLEAN), SAID, plant=twice)
    assert found == replace(CLEAN_AUDIT, duplicates=1, spark_rows=7, tables_agree=False)


def test_a_control_record_that_is_there_twice_is_a_duplicate(made: TablesOfLogs) -> None:
    def twice(records: DataFrame) -> DataFrame:
        return records.unionAll(records.where("is_control"))

    found = audited(made, log(CLEAN), SAID, plant=twice)
    assert found == replace(CLEAN_AUDIT, duplicates=1, tables_agree=False)


def test_a_record_that_stands_in_the_log_twice_is_a_duplicate(made: TablesOfLogs) -> None:
    found = audited(made, log([*CLEAN, CLEAN[2]]), SAID, until_offset=BASE_OFFSET + COUNT + 1)
    assert (found.duplicates, found.missing, found.strays) == (1, 0, 0)


def test_a_row_that_is_not_there_is_missing(made: TablesOfLogs) -> None:
    found = audited(made, log(CLEAN), SAID, plant=lambda records: records.where("offset != 3"))
    assert found == replace(CLEAN_AUDIT, missing=1, spark_rows=5, tables_agree=False)


def test_a_gap_in_the_log_is_missing_and_so_is_what_moved_because_of_it(made: TablesOfLogs) -> None:
    found = audited(made, log([*CLEAN[:3], *CLEAN[4:]]), SAID)
    assert (found.duplicates, found.missing, found.out_of_order) == (0, 3, 0)


def test_two_rows_with_each_other_s_offset_are_out_of_order(made: TablesOfLogs) -> None:
    def swapped(records: DataFrame) -> DataFrame:
        other = F.when(F.col("offset") == 3, 4).when(F.col("offset") == 4, 3).otherwise(F.col("offset"))
        return records.withColumn("offset", other)

    found = audited(made, log(CLEAN), SAID, plant=swapped)
    assert found == replace(CLEAN_AUDIT, out_of_order=1, missing=2, strays=2)


def test_another_value_than_that_in_the_log_is_a_stray(made: TablesOfLogs) -> None:
    def changed(records: DataFrame) -> DataFrame:
        other = F.concat("value", F.lit(b"!"))
        return records.withColumn("value", F.when(F.col("offset") == 3, other).otherwise(F.col("value")))

    found = audited(made, log(CLEAN), SAID, plant=changed)
    assert found == replace(CLEAN_AUDIT, strays=1)


def test_a_row_behind_the_end_of_the_log_is_a_stray(made: TablesOfLogs) -> None:
    def invented(records: DataFrame) -> DataFrame:
        return records.unionAll(records.where("offset = 3").withColumn("offset", F.lit(99).cast("long")))

    found = audited(made, log(CLEAN), SAID, plant=invented)
    assert found == replace(CLEAN_AUDIT, strays=1, tables_agree=False)


def test_what_came_after_the_end_does_not_count(made: TablesOfLogs) -> None:
    found = audited(made, log(CLEAN), said(4, base_offset=BASE_OFFSET))
    assert found == replace(CLEAN_AUDIT, committed_records=4, acknowledged=4, spark_rows=4)


def test_a_tail_that_is_not_in_the_log_is_missing(made: TablesOfLogs) -> None:
    found = audited(made, log(CLEAN[:4]), SAID)
    assert (found.missing, found.committed_records, found.spark_rows) == (2, 4, 4)


def test_an_empty_log_lacks_everything(made: TablesOfLogs) -> None:
    found = audited(made, b"", SAID)
    assert (found.missing, found.spark_rows, found.committed_records, found.leader_epochs) == (COUNT, 0, 0, 0)


def test_a_record_in_a_batch_of_another_epoch_than_it_claims_is_missing(made: TablesOfLogs) -> None:
    other = payload(0, epoch=EPOCH - 1)
    claimed = said(1, epoch=EPOCH - 1, base_offset=BASE_OFFSET + COUNT)
    found = audited(made, log([*CLEAN, other]), SAID, claimed)
    assert (found.missing, found.duplicates, found.out_of_order) == (1, 0, 0)


def test_what_is_not_the_workload_s_is_only_a_row(made: TablesOfLogs) -> None:
    kafka_s, without_a_number, short = bytes(40), b"\xff" * 40, b"short"
    values = [*CLEAN, *(2 * [kafka_s, without_a_number, short])]
    found = audited(made, log(values), SAID, until_offset=BASE_OFFSET + len(values))
    assert found == replace(CLEAN_AUDIT, committed_records=len(values), spark_rows=len(values))


def test_tables_without_an_acknowledgement_can_be_audited(made: TablesOfLogs) -> None:
    found = audited(made, log(CLEAN))
    assert found == replace(CLEAN_AUDIT, committed_records=0, acknowledged=0, spark_rows=0, leader_epochs=0)


@pytest.mark.parametrize("table", [BRONZE, CONTROL])
def test_a_table_of_other_records_does_not_agree(table: str, made: TablesOfLogs) -> None:
    whole = made.of(log(CLEAN)).tables
    tables = {**whole, table: whole[table].limit(0)}
    rows = fingerprints(tables[RECORDS])
    assert not do_tables_agree(rows, tables[BRONZE], tables[CONTROL])


def test_what_the_workload_wrote_is_read_from_the_value(spark: SparkSession) -> None:
    large = payload(2**40 + 5, epoch=2**31 - 1)
    records = spark.createDataFrame(
        [(1, False, large), (2, True, large), (3, False, large[:19])], "offset long, is_control boolean, value binary"
    )
    found = payload_columns(records).select("offset", "run", "claim_epoch", "sequence")
    wanted = spark.createDataFrame(
        [(1, RUN.hex(), 2**31 - 1, 2**40 + 5)], "offset long, run string, claim_epoch int, sequence long"
    )
    assertDataFrameEqual(found, wanted, ignoreNullable=True)


def test_acknowledgements_become_a_row_a_record(spark: SparkSession) -> None:
    found = acknowledged_frame(spark, [said(2, first_sequence=7, base_offset=20)])
    wanted = spark.createDataFrame(
        [(RUN.hex(), EPOCH, 7, 20), (RUN.hex(), EPOCH, 8, 21)],
        "run string, claim_epoch int, sequence long, offset long",
    )
    assertDataFrameEqual(found, wanted, ignoreNullable=True)


ASKED = 8
PROMISE = said(ASKED)
Fault = Callable[[pa.Table], pa.Table]


@pytest.fixture(scope="module")
def finished(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three replicas, and the tables that the pipeline made of one."""
    folder = tmp_path_factory.mktemp("finished")
    data = b"".join(batch([payload(at), payload(at + 1)], base_offset=at) for at in range(0, ASKED, 2))
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
    comparison = compare(partitions, [PROMISE], end_offset=ASKED)
    assert comparison.furthest is not None
    audit = ask_spark(spark, DeltaTables(folder / "tables"), comparison.furthest, [PROMISE], until_offset=ASKED)
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
    assert (found.audit.spark_rows, found.audit.committed_records) == (ASKED, ASKED)


@pytest.mark.parametrize(
    ("plant", "counts", "problem"),
    [
        (with_a_duplicate, {"duplicates": 1, "spark_rows": ASKED + 1}, "1 record duplicated in the tables"),
        (with_a_gap, {"missing": 1, "spark_rows": ASKED - 1}, "1 acknowledged record missing from the tables"),
        (with_a_swapped_pair, {"out_of_order": 1, "missing": 2, "strays": 2}, "1 record out of order in the tables"),
    ],
)
def test_a_fault_in_the_tables_is_reported(
    plant: Fault, counts: dict[str, int], problem: str, spark: SparkSession, finished: Path, copy: Path
) -> None:
    table = copy / "tables" / RECORDS
    write_deltalake(table, plant(DeltaTable(table).to_pyarrow_table()), mode="overwrite")
    found = checked(spark, copy)
    assert problem in found.problems
    clean = {"duplicates": 0, "missing": 0, "out_of_order": 0, "strays": 0, "spark_rows": ASKED}
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
    assert replace(found, comparison=compare({"node 2": copy / "n2"}, [PROMISE], end_offset=ASKED)).problems == []


def test_what_spark_cannot_answer_is_one_line(spark: SparkSession, copy: Path) -> None:
    (segment,) = (copy / "n1").glob("*.log")
    data = segment.read_bytes()
    segment.write_bytes(data[:100] + b"!" + data[101:])
    with pytest.raises(LocalQuorumError) as caught:
        ask_spark(spark, DeltaTables(copy / "tables"), copy / "n1", [PROMISE], until_offset=ASKED)
    assert str(caught.value).startswith(f"Spark cannot continue: {segment}: at position ")
    assert "\n" not in str(caught.value)


def test_a_spark_that_ended_is_one_line(spark: SparkSession, finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise Py4JError("Answer from Java side is empty")

    monkeypatch.setattr("lab.demo.payloads.acknowledged_frame", fail)
    with pytest.raises(LocalQuorumError, match="Spark cannot continue: Answer from Java side is empty"):
        ask_spark(spark, DeltaTables(finished / "tables"), finished / "n1", [PROMISE], until_offset=ASKED)

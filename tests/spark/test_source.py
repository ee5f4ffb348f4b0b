"""``format("pykraft")`` in Spark: Kafka's own directories as rows of its replicas; errors that say what to do."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from pyspark.testing import assertDataFrameEqual, assertSchemaEqual

from pykraft.errors import UsageError
from pykraft.log.os_fs import OsFs
from pykraft.log.small_files.recovery_point import RecoveryPoint
from pykraft.protocol.records import decode_records, scan
from pykraft.spark.data_source.decode import SplitPartition
from pykraft.spark.data_source.file_stream import FilesStreamReader
from pykraft.spark.data_source.options import parse_options
from pykraft.spark.data_source.selection import RECORDS
from pykraft.spark.source import LogReader, PykraftDataSource, register
from pykraft.spark.source import read as source_read
from pykraft.types import Offset
from tests.spark.logs import START_MS, batch, three_batches, write_segment

pytestmark = pytest.mark.spark

GOLDEN = Path(__file__).parents[1] / "golden" / "static" / "disk"


def test_a_quorum_that_kafka_wrote_reads_as_rows_of_its_replicas(spark: SparkSession) -> None:
    frame = spark.read.format("pykraft").load(f"{GOLDEN}/n*/data/__cluster_metadata-0")
    assertSchemaEqual(frame.schema, RECORDS)
    expected = []
    for segment in sorted(GOLDEN.glob("n*/data/__cluster_metadata-0/*.log")):
        data = segment.read_bytes()
        for position, header in scan(data):
            expected += [
                (segment.parts[-4], record.offset, header.epoch, header.is_control, record.value)
                for record in decode_records(data[position : position + header.size_bytes])
            ]
    names = ["replica", "offset", "epoch", "is_control", "value"]
    wanted = spark.createDataFrame(expected, "replica string, offset long, epoch int, is_control boolean, value binary")
    assert wanted.select("replica").distinct().count() > 1
    assertDataFrameEqual(frame.select(names), wanted, ignoreNullable=True)


def test_logs_without_a_record_have_no_row(spark: SparkSession, tmp_path: Path) -> None:
    write_segment(tmp_path, b"")
    frame = spark.read.format("pykraft").load(str(tmp_path))
    assertSchemaEqual(frame.schema, RECORDS)
    assert frame.collect() == []


def test_an_engine_may_name_the_columns_in_arrow_s_types(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "n1" / "p-0", b"".join(three_batches())).parent
    columns = pa.schema([("value", pa.binary()), ("timestamp", pa.timestamp("us", tz="UTC")), ("offset", pa.int64())])
    reader = PykraftDataSource({"path": str(path)}).reader(columns)
    (part,) = reader.partitions()
    (rows,) = cast("Iterator[pa.RecordBatch]", reader.read(part))
    assert rows.schema.types == columns.types
    assert rows.column("value").to_pylist() == [b"a0", b"b0", b"a1", b"b1", b"a2", b"b2"]
    with pytest.raises(UsageError, match="has no column size"):
        PykraftDataSource({"path": str(path)}).reader(pa.schema([("size", pa.int64())]))
    frame = pa.schema([("value", pa.string()), ("id", pa.int64())])
    with pytest.raises(UsageError, match="leave out id"):
        PykraftDataSource({"bootstrap.controllers": "localhost:9093"}).writer(frame, overwrite=False)


@pytest.mark.parametrize("options", [{}, {"path": " , "}, {"paths": "[]"}, {"paths": '[""]'}])
def test_a_path_must_be_given(options: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=r"\.option\(.path."):
        PykraftDataSource(options).reader(RECORDS)


@pytest.mark.parametrize("paths", ["n1", '{"a": 1}', "[1]"])
def test_paths_must_be_a_list_of_texts(paths: str) -> None:
    with pytest.raises(UsageError, match="must be a JSON array of texts"):
        PykraftDataSource({"paths": paths}).reader(RECORDS)


def test_a_list_is_read_as_a_comma_list_is(spark: SparkSession, tmp_path: Path) -> None:
    """Spark passes a list on as the option ``paths``."""
    folders = [tmp_path / "n,1", tmp_path / "n2", tmp_path / "n3"]
    for folder in folders:
        write_segment(folder, b"".join(three_batches()))
    names = [str(folder) for folder in folders]
    source = spark.read.format("pykraft")
    found = source.load(names).groupBy("replica").count().orderBy("replica").collect()
    assert [tuple(row) for row in found] == [("n,1", 6), ("n2", 6), ("n3", 6)]
    assert source.load(f"{names[1]}, {names[2]}").count() == 12


def test_spark_passes_on_what_is_wrong(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="no segment files; give partition directories"):
        spark.read.format("pykraft").load(str(tmp_path)).count()
    first, second, third = three_batches()
    segment = write_segment(tmp_path, first + second[:-1] + b"!" + third)
    with pytest.raises(PySparkException, match=f"{segment}: at position {len(first)}: expected a valid batch"):
        spark.read.format("pykraft").load(str(tmp_path)).count()


def test_a_reader_has_a_partition_for_each_split_and_keeps_nothing_of_it(tmp_path: Path) -> None:
    write_segment(tmp_path, b"".join(three_batches()))
    reader = LogReader(parse_options({"path": str(tmp_path)}))
    (partition,) = reader.partitions()
    assert isinstance(partition, SplitPartition)
    for _ in range(2):
        assert sum(group.num_rows for group in reader.read(partition)) == 6


def test_offsets_of_a_replica_that_is_not_there_are_refused(tmp_path: Path) -> None:
    write_segment(tmp_path / "n1", b"".join(three_batches()))
    for option in ("startingOffsets", "endingOffsets"):
        given = parse_options({"path": str(tmp_path / "n1"), option: '{"n7": 2}'})
        for plan in (LogReader(given).partitions, FilesStreamReader(given).initialOffset):
            with pytest.raises(UsageError, match=f"the option {option} names n7; the replicas are"):
                plan()


def test_other_columns_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    write_segment(tmp_path, b"".join(three_batches()))
    with pytest.raises(PySparkException, match="has no column a; it has replica, segment"):
        spark.read.format("pykraft").schema("a int").load(str(tmp_path)).count()


def test_a_query_may_name_some_columns(spark: SparkSession, tmp_path: Path) -> None:
    write_segment(tmp_path / "topic-3", b"".join(three_batches()))
    source = spark.read.format("pykraft").schema("value binary, partition int, offset bigint")
    frame = source.load(str(tmp_path / "topic-3")).orderBy("offset")
    assert [tuple(row) for row in frame.collect()][1:3] == [(b"b0", 3, 1), (b"a1", 3, 2)]
    assert source.load(str(tmp_path / "topic-3")).count() == 6


def test_a_job_of_the_kafka_source_changes_format_and_address(spark: SparkSession) -> None:
    """Spark finds the source by itself in a session in which nothing registered it."""
    jvm = spark.newSession()
    options = {"startingOffsets": "earliest", "failOnDataLoss": "false", "includeHeaders": "false"}
    source = jvm.read.format("pykraft").options(**options).option("columns", "kafka")
    frame = source.load(f"{GOLDEN}/n1/data/__cluster_metadata-0")
    names = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert frame.columns == names
    rows = frame.collect()
    assert rows
    assert {(row.topic, row.partition, row.timestampType) for row in rows} == {("__cluster_metadata", 0, 0)}
    control = spark.read.format("pykraft").load(f"{GOLDEN}/n1/data/__cluster_metadata-0").where("is_control")
    found = {row.offset for row in control.select("offset").collect()}
    assert found
    assert not found & {row.offset for row in rows}


def test_sql_has_views_and_tables(spark: SparkSession, tmp_path: Path) -> None:
    """A view, like a frame, is planned once, and a table for each query. Who drops a table drops no log."""
    path = write_segment(tmp_path / "n 1", b"".join(three_batches())).parent
    spark.sql(f"CREATE TABLE whole USING pykraft OPTIONS (path '{path}', failOnDataLoss 'false')")
    spark.sql(f"CREATE TABLE batches USING pykraft OPTIONS (paths '[\"{path}\"]', rows 'batches')")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW known USING pykraft OPTIONS (path '{path}')")
    assert [spark.table(name).count() for name in ("whole", "batches", "known")] == [6, 3, 6]
    write_segment(tmp_path / "n 1", batch([b"c", b"d"], base_offset=6), base_offset=6)
    assert [spark.table(name).count() for name in ("whole", "batches", "known")] == [8, 4, 6]
    found = spark.sql("SELECT value FROM whole WITH (startingOffsets = '7')").collect()
    assert [row.value for row in found] == [b"d"]
    columns = spark.table("whole").schema
    assert spark.read.format("pykraft").schema(columns).options(endingOffsets="2").load(str(path)).count() == 2
    for name in ("whole", "batches"):
        spark.sql(f"DROP TABLE {name}")
    assert len(list(path.glob("*.log"))) == 2


def test_a_table_is_a_stream_too(tmp_path: Path) -> None:
    path = write_segment(tmp_path / "n1", b"".join(three_batches())).parent
    columns = PykraftDataSource({"location": f"file:{path}", "owner": "me", "option.rows": "batches"}).schema()
    stream = PykraftDataSource({}).streamReader(columns)
    (position,) = stream.initialOffset()["replicas"].values()
    assert position["path"] == str(path)
    with pytest.raises(UsageError, match="one of records, batches"):
        PykraftDataSource({"location": f"file:{path}", "option.rows": "columns"}).schema()


def test_a_query_without_a_source_has_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    """As Spark 3.5 needs it."""
    write_segment(tmp_path / "n1", b"".join(three_batches()))
    write_segment(tmp_path / "n2", b"".join(three_batches()))
    options = {"path": f"{tmp_path}/n*", "minPartitions": "2"}
    source = spark.read.format("pykraft").options(**options)
    assertDataFrameEqual(source_read(spark, options), source.load())
    columns = StructType([RECORDS["offset"], RECORDS["value"]])
    assertDataFrameEqual(source_read(spark, options, columns), source.schema(columns).load())
    assert source_read(spark, options | {"startingOffsets": "latest"}).count() == 0


def test_filters_reach_the_source(spark: SparkSession, tmp_path: Path) -> None:
    """The plan has no task for the epochs and offsets that nobody wants, and the rows are those that Spark wants."""
    for place, epoch in ((0, 1), (2, 2), (4, 3)):
        write_segment(tmp_path, batch([b"a", b"b"], base_offset=place, epoch=epoch), base_offset=place)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        given = {"pushFilters": "true", "minPartitions": "3"}  # a task for each segment
        frame = spark.read.format("pykraft").options(**given).load(str(tmp_path))
        for condition, offsets, tasks in (
            ("epoch = 2", [2, 3], 1),
            ("offset > 2", [3, 4, 5], 2),
            ("offset in (1, 2) and epoch < 2", [1], 1),
            (f"timestamp >= timestamp_millis({START_MS + 1})", [], 3),
            (f"timestamp >= timestamp_millis({START_MS})", [0, 1, 2, 3, 4, 5], 3),
            ("value = 'a'", [0, 2, 4], 3),
        ):
            found = frame.where(condition)
            assert sorted(row.offset for row in found.select("offset").collect()) == offsets, condition
            assert found.rdd.getNumPartitions() == tasks, condition
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_the_lag_of_a_stream_stands_in_spark_s_progress(spark: SparkSession, tmp_path: Path) -> None:
    write_segment(tmp_path / "n1" / "p-0", b"".join(three_batches()))
    source = spark.readStream.format("pykraft").option("maxOffsetsPerTrigger", "2").schema("offset bigint")
    frame = source.load(str(tmp_path / "n1" / "p-0"))
    query = frame.writeStream.format("noop").trigger(availableNow=True)
    running = query.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert running.awaitTermination(60)
    first = json.loads(running.recentProgress[0]["sources"][0]["latestOffset"])
    ends = [json.loads(each["sources"][0]["endOffset"]) for each in running.recentProgress if each["numInputRows"]]
    assert [end["replicas"]["n1"]["offset"] for end in ends] == [2, 4, 6]
    assert first["replicas"]["n1"]["offset"] == 6


def test_what_is_wrong_stands_behind_few_lines(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PySparkException) as caught:
        spark.read.format("pykraft").options(path=str(tmp_path), rows="record").load()
    lines = [line for line in str(caught.value).splitlines() if not line.strip().startswith("SQLSTATE")]
    assert lines[-1] == "pykraft.errors.UsageError: the option rows = 'record': it must be one of records, batches"
    assert len(lines) < 20


@pytest.mark.parametrize("case", ["torn", "damaged"])
def test_a_query_ends_where_a_start_would_end_the_log(case: str, spark: SparkSession, tmp_path: Path) -> None:
    """The recovery point tells a batch that a crash tore from one that changed after it was synced."""
    first, second, third = three_batches()
    segment = write_segment(tmp_path, first + second[:-1] + b"!" + third)
    RecoveryPoint.create(OsFs(), tmp_path, Offset(2 if case == "torn" else 6)).close()
    frame = spark.read.format("pykraft").load(str(tmp_path))
    if case == "torn":
        assert sorted(row.offset for row in frame.select("offset").collect()) == [0, 1]
    else:
        with pytest.raises(PySparkException, match=f"{segment}: at position {len(first)}: expected a valid batch"):
            frame.count()
    marked = spark.read.format("pykraft").option("corrupt", "mark").load(str(tmp_path)).orderBy("offset").collect()
    assert [row.offset for row in marked if row.corrupt is None] == ([0, 1] if case == "torn" else [0, 1, 4, 5])
    assert [row.offset for row in marked if row.corrupt is not None] == ([] if case == "torn" else [2])


def test_a_worker_that_reads_directories_does_not_import_the_client() -> None:
    """Spark starts several Pythons for each query, and the client would be half of what they import."""
    program = "import pykraft.spark.source, sys; sys.exit('pykraft.client' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


@pytest.mark.parametrize(
    ("master", "named", "python"),
    [
        ("local[2]", None, sys.executable),
        ("local-cluster[1,1,512]", None, sys.executable),
        ("local[2]", "/opt/python", "python3"),
        ("spark://host:7077", None, "python3"),
    ],
)
def test_local_workers_run_the_python_of_the_program(
    master: str, named: str | None, python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if named is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", named)
    context = SimpleNamespace(master=master, pythonExec="python3")
    registered: list[type] = []
    register(cast("SparkSession", SimpleNamespace(sparkContext=context, dataSource=SourceList(registered))))
    assert context.pythonExec == python
    assert registered == [PykraftDataSource]


def test_a_session_of_spark_connect_has_workers_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    registered: list[type] = []
    register(cast("SparkSession", SimpleNamespace(dataSource=SourceList(registered))))
    assert registered == [PykraftDataSource]


class SourceList:
    """What a session offers to register sources."""

    def __init__(self, registered: list[type]) -> None:
        self.register = registered.append

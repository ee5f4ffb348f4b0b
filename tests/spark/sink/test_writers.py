"""Spark writes a DataFrame and a stream into a quorum; wrong columns, modes and rows are refused before anything is."""

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from pykraft.errors import QuorumUnavailableError, StorageError, UsageError
from pykraft.local.voters import HOST, free_ports
from pykraft.spark.data_source.selection import columns_of
from pykraft.spark.sink.writers import QuorumWriter, Staged
from pykraft.spark.source import PykraftDataSource
from tests.spark.logs import three_batches, write_segment
from tests.spark.sink.sinks import Sink, rows_of

pytestmark = pytest.mark.spark

VALUES = columns_of("value binary")


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Sink]:
    made = Sink(tmp_path / "sink")
    yield made
    made.node.stop()


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where folders are made that nobody named."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def options_of(sink: Sink, **more: str) -> dict[str, str]:
    return {"bootstrap.controllers": str(sink.node.endpoint), **more}


def writer_of(sink: Sink, **more: str) -> QuorumWriter:
    writer = PykraftDataSource(options_of(sink, **more)).writer(VALUES, overwrite=False)
    assert isinstance(writer, QuorumWriter)
    return writer


def written(writer: QuorumWriter, *values: bytes | None) -> Staged:
    return writer.write(iter([pa.record_batch([pa.array(values, pa.binary())], names=["value"])]))


def test_a_frame_becomes_records_in_the_order_of_its_partitions(spark: SparkSession, sink: Sink) -> None:
    frame = spark.range(0, 5_000, numPartitions=3).selectExpr("id", "cast(concat('v', id) as binary) as value")
    header = "if(id % 2 = 0, array(struct('n' as key, value as value)), null) as headers"
    keyed = frame.selectExpr("value", "substr(value, -1) as key", header, "timestamp_millis(1000 + id) as timestamp")
    keyed.write.format("pykraft").mode("append").options(**options_of(sink, maxBatchBytes="4096")).save()
    assert sink.logged() == [f"v{number}".encode() for number in range(5_000)]
    source = spark.read.format("pykraft").options(**options_of(sink, columns="kafka", includeHeaders="true"))
    frame = source.load().selectExpr("*", "unix_millis(timestamp) - 1000 as id").orderBy("offset")
    found = [(row.key, row.headers and [tuple(each) for each in row.headers], row.id) for row in frame.collect()]
    assert found == [
        (str(number % 10).encode(), None if number % 2 else [("n", f"v{number}".encode())], number)
        for number in range(5_000)
    ]


def test_a_stream_goes_on_where_it_was_and_gives_back_what_spark_repeats(
    spark: SparkSession, sink: Sink, tmp_path: Path
) -> None:
    """The second start has lost Spark's note that its last micro-batch is done, as after a kill."""
    log, checkpoint = tmp_path / "n1" / "p-0", tmp_path / "checkpoint"
    batches = three_batches()
    write_segment(log, b"".join(batches))

    def run() -> list[Any]:
        source = spark.readStream.format("pykraft").option("maxRecordsPerTrigger", "2").schema("value binary")
        writer = source.load(str(log)).writeStream.format("pykraft").options(**options_of(sink))
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(60)
        return [each for each in query.recentProgress if each["numInputRows"]]

    assert len(run()) == 3
    wanted = sink.logged()
    assert len(wanted) == 6
    for path in (checkpoint / "commits").glob("*2*"):
        path.unlink()
    assert len(run()) == 1
    assert sink.logged() == wanted
    [query] = (checkpoint / "pykraft-sink").iterdir()
    assert sorted(path.name for path in query.iterdir()) == ["2.0.manifest.json", "2.progress.json"]


def test_a_query_with_a_row_that_is_too_large_names_it_and_leaves_nothing(spark: SparkSession, sink: Sink) -> None:
    frame = spark.range(0, 40, numPartitions=1).selectExpr("repeat('x', if(id = 33, 3000, 10)) as value")
    options = options_of(sink, maxBatchBytes="2048", stagingLocation=str(sink.root))
    with pytest.raises(PySparkException, match=r"row 33 of partition 0 \(both from 0\) takes 3024 bytes"):
        frame.write.format("pykraft").mode("append").options(**options).save()
    assert sink.logged() == []
    assert list(sink.root.iterdir()) == []


def test_spark_passes_on_that_a_log_is_only_appended_to(spark: SparkSession, sink: Sink) -> None:
    writer = spark.range(1).selectExpr("'a' as value").write.format("pykraft").mode("overwrite")
    with pytest.raises(PySparkException, match=r"never overwritten: write with \.mode"):
        writer.options(**options_of(sink)).save()


def test_an_aborted_micro_batch_keeps_what_its_manifest_names(sink: Sink) -> None:
    source = PykraftDataSource(options_of(sink, stagingLocation=str(sink.root)))
    writer = source.streamWriter(VALUES, overwrite=False)
    files = [sink.stage(4, partition, rows_of(partition, 5)) for partition in range(2)]
    messages = [Staged(query_id=sink.folder.path.name, batch_id=4, file=file) for file in (*files, None)]
    writer.commit([messages[0], messages[2]], 4)
    assert sink.logged() == rows_of(0, 5)
    kept = [sink.stage(5, 0, [b"a"])]
    sink.folder.create(replace(sink.folder.newest() or pytest.fail("it has one"), batch_id=5, files=tuple(kept)))
    other = sink.stage(5, 0, [b"b"])
    writer.abort([None, *(Staged(query_id=sink.folder.path.name, batch_id=5, file=each) for each in (*kept, other))], 5)
    assert [path.name for path in sink.folder.rows_folder(5).iterdir()] == [kept[0].name]


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ("key binary", "the DataFrame has key"),
        ("value binary, offset bigint", r"leave out offset, as with \.select"),
        ("value bigint", "the column value must be binary or string, not bigint: cast it"),
        ("value string, key int", "the column key must be binary or string, not int"),
        ("value string, timestamp bigint", "the column timestamp must be timestamp, not bigint"),
        ("value string, headers string", "the column headers must be array<struct<key:string,value:binary>>"),
    ],
)
def test_other_columns_are_refused(columns: str, problem: str) -> None:
    source = PykraftDataSource({"bootstrap.controllers": "a:1", "checkpointLocation": "/nowhere"})
    with pytest.raises(UsageError, match=problem):
        source.streamWriter(columns_of(columns), overwrite=False)
    with pytest.raises(UsageError, match=problem):
        PykraftDataSource({"bootstrap.controllers": "a:1"}).writer(columns_of(columns), overwrite=False)


def test_what_is_wrong_with_an_overwrite_is_told_without_spark(temporary: Path) -> None:
    source = PykraftDataSource({"bootstrap.controllers": "a:1"})
    with pytest.raises(UsageError, match="records of a log are never overwritten"):
        source.writer(VALUES, overwrite=True)
    with pytest.raises(UsageError, match="records of a log are never overwritten"):
        source.streamWriter(StructType([]), overwrite=True)
    assert list(temporary.glob("pykraft-sink-*")) == []


def test_a_batch_query_keeps_no_folder(sink: Sink, temporary: Path) -> None:
    writer = writer_of(sink)
    messages = [written(writer, *rows_of(0, 30)), written(writer)]
    assert messages[1].file is None
    writer.commit([messages[0], messages[1]])
    assert sink.logged() == rows_of(0, 30)
    failed = writer_of(sink)
    failed.abort([None, written(failed, b"a")])
    assert list(temporary.glob("pykraft-sink-*")) == []


def test_a_copy_of_a_task_writes_a_file_that_is_not_appended(sink: Sink) -> None:
    writer = writer_of(sink, stagingLocation=str(sink.root))
    authorized, _ = written(writer, b"a"), written(writer, b"a")
    writer.commit([authorized])
    assert sink.logged() == [b"a"]
    assert list(sink.root.iterdir()) == []


def test_a_job_with_an_id_is_appended_once(sink: Sink) -> None:
    """It fails in its commit, as if its driver was killed there, and is run again; then once more."""
    named = {"stagingLocation": str(sink.root), "jobId": "nightly"}
    writer = writer_of(sink, **named)
    message = written(writer, *rows_of(0, 30))
    nobody = {**named, "bootstrap.controllers": f"{HOST}:{free_ports(1)[0]}", "deliveryTimeout": "300ms"}
    unreachable = PykraftDataSource(nobody).writer(VALUES, overwrite=False)
    with pytest.raises(QuorumUnavailableError):
        unreachable.commit([message])
    unreachable.abort([message])
    for attempt in range(2):
        again = writer_of(sink, **named)
        again.commit([written(again, *rows_of(0, 40, attempt=attempt))])
    assert sink.logged() == rows_of(0, 40)


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path, sink: Sink) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="the folder for staged rows cannot be made"):
        writer_of(sink, stagingLocation=str(tmp_path / "file" / "folder"))

"""Spark reads logs from object storage as from directories, and writes rows and tables there; and what goes wrong."""

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from pykraft.audit.directory_audit import DirectoryAudit, run_audits
from pykraft.errors import CorruptionError, StorageError, UsageError
from pykraft.object_storage.files import Files
from pykraft.object_storage.uris import located
from pykraft.spark.audit_job import run_on
from pykraft.spark.data_source.file_plan import find_replicas, plan_batch
from pykraft.spark.data_source.file_stream import FilesStreamReader
from pykraft.spark.data_source.options import parse_options
from pykraft.spark.data_source.splits import Split, read_chunks
from pykraft.spark.metadata.directory import NOW, Moment, furthest, records_until
from pykraft.spark.pipeline.report import make_report
from pykraft.spark.pipeline.run import PipelineOptions, start_pipeline
from pykraft.spark.pipeline.status import pipeline_status
from pykraft.spark.source import register
from pykraft.spark.tables.commit import ParquetFile
from pykraft.spark.tables.delta import DeltaAppend
from pykraft.spark.tables.names import ALL_TABLES, BRONZE, CHECKPOINT, CONTROL, EPOCHS, RECORDS
from pykraft.spark.tables.table_folder import delta_place
from pykraft.types import Offset
from tests.audit.replicas import audited, our_replicas
from tests.log.data_directory import GOLDEN, flip, make_node, segments
from tests.object_storage.s3_server import SECRET, Proxy, Storage, environment, proxied, running
from tests.spark.data_source.test_file_stream import read, run
from tests.spark.logs import batch
from tests.spark.sink.sinks import Sink

PARTITION = "__raft_performance_test-0"
SEGMENT = "00000000000000000000.log"


@pytest.fixture(scope="module")
def storage() -> Iterator[Storage]:
    """The server."""
    with running() as found:
        yield found


@pytest.fixture
def proxy(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """What this process and Spark's ask."""
    with proxied(storage, monkeypatch) as made:
        yield made


@pytest.fixture
def there(spark: SparkSession, proxy: Proxy) -> Iterator[SparkSession]:
    """The session, whose Python processes have the credentials in their environment."""
    before = dict(spark.sparkContext.environment)
    spark.sparkContext.environment.update(environment(proxy.endpoint))
    register(spark)
    yield spark
    spark.sparkContext.environment.clear()
    spark.sparkContext.environment.update(before)
    register(spark)


def rows_of(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.select("replica", "segment", "position", "offset", "value").collect())


@pytest.mark.timeout(300)  # new Python processes for each query, and two streams
def test_spark_reads_objects_as_it_reads_files(there: SparkSession, storage: Storage, tmp_path: Path) -> None:
    for name in ("n1", "n2"):
        make_node(tmp_path / name)
        storage.upload(tmp_path / name, f"s3://source/{name}")
    expected = rows_of(there.read.format("pykraft").load(f"{tmp_path}/n*/{PARTITION}"))
    assert len(expected) > 50
    query = there.read.format("pykraft")
    listed = [f"s3://source/n1/{PARTITION}", f"s3://source/n2/{PARTITION}/*.log"]
    assert rows_of(query.load(f"s3a://source/n*/{PARTITION}")) == expected
    assert rows_of(query.load(listed)) == expected

    # What the stream reads there, it writes into a quorum, and stages in the same storage.
    stream = there.readStream.format("pykraft").load(f"s3://source/n*/{PARTITION}").select("value")
    checkpoint, staging = tmp_path / "checkpoint", located("s3://source/staging")
    sink = Sink(tmp_path / "sink", staging)
    counts = []
    for _ in range(2):
        writer = stream.writeStream.format("pykraft").option("bootstrap.controllers", str(sink.node.endpoint))
        writer = writer.option("checkpointLocation", str(checkpoint)).option("stagingLocation", str(staging))
        started = writer.trigger(availableNow=True).start()
        assert started.awaitTermination(100)
        counts.append(sum(each["numInputRows"] for each in started.recentProgress))
        end = find_replicas([f"s3://source/n2/{PARTITION}"])[0].end()
        later = batch([b"later", b"still later"], base_offset=end, epoch=2)
        storage.put(f"s3://source/n2/{PARTITION}/{end:020d}.log", later)
    assert counts == [len(expected), 2]
    written = sink.logged()
    sink.node.stop()
    assert Counter(written) == Counter([*(row[-1] for row in expected), b"later", b"still later"])
    [name] = Files().listdir(staging)
    assert Files().listdir(staging / name) == ["1.0.manifest.json", "1.progress.json"]
    kept = "".join(path.read_text() for path in checkpoint.rglob("*") if path.is_file() and path.suffix != ".crc")
    assert SECRET not in kept

    storage.put(f"s3://source/n3/{PARTITION}/{SEGMENT}", b"")
    with pytest.raises(PySparkException) as raised:
        query.load(f"s3://a:{SECRET}@source/n1").count()
    assert "give no key and no setting in a URI" in str(raised.value)
    assert SECRET not in str(raised.value)


def test_executors_audit_replicas_there_as_those_of_directories(
    there: SparkSession, storage: Storage, tmp_path: Path
) -> None:
    replicas = our_replicas(tmp_path)
    flip(segments(next(replicas[1].glob("__*")))[0], 100)
    for replica in replicas:
        storage.upload(replica, f"s3://audit/{replica.name}")
    names = [located(f"s3://audit/{replica.name}") for replica in replicas]
    audit = DirectoryAudit(Files(), names)
    (report,) = run_audits([audit], lambda tasks: run_on(there, tasks))
    expected = json.dumps(list(audited(replicas).rows())).replace(str(tmp_path), "s3://audit")
    assert list(report.rows()) == json.loads(expected)
    assert report.damage_count == 2


@pytest.mark.timeout(300)
def test_the_pipeline_s_tables_are_there_and_no_row_is_twice(
    there: SparkSession, storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_node(tmp_path / "n1")
    storage.upload(tmp_path / "n1", "s3://pipeline/n1")
    path, root = f"s3://pipeline/n1/{PARTITION}", located("s3a://pipeline/tables")
    given = PipelineOptions(source={"path": path}, root=root, checkpoint=tmp_path / "checkpoint", upkeep_interval=1)
    tables, finish = given.tables(), DeltaAppend.finish
    done: list[DeltaAppend] = []

    def killed(append: DeltaAppend, files: Sequence[ParquetFile]) -> int | None:
        """A driver that is killed before its second table."""
        if done:
            raise KeyError("killed")
        done.append(append)
        return finish(append, files)

    with monkeypatch.context() as patch:
        patch.setattr(DeltaAppend, "finish", killed)
        with pytest.raises(StreamingQueryException):
            start_pipeline(there, given).awaitTermination()
    assert [tables.has(name) for name in ALL_TABLES] == [True, False, False, False, False]
    for _ in range(2):
        start_pipeline(there, given).awaitTermination()
    wanted = offsets_of(there.read.format("pykraft").load(path))
    assert offsets_of(tables.read(there, RECORDS)) == wanted
    end = find_replicas([path])[0].end()
    storage.put(f"{path}/{end:020d}.log", batch([b"later"], base_offset=end, epoch=2))
    start_pipeline(there, given).awaitTermination()
    assert offsets_of(tables.read(there, RECORDS)) == [*wanted, end]

    uri, options = delta_place(root / RECORDS)
    other_reader = DeltaTable(uri, storage_options=options).to_pyarrow_table(columns=["offset"])
    assert sorted(other_reader["offset"].to_pylist()) == [*wanted, end]
    report = make_report(there, tables, is_written=True)
    assert (report.last_offset, len(report.epochs)) == (end, tables.read(there, EPOCHS).count())
    status = pipeline_status(root, given.checkpoint)
    assert status.batch_id == 1
    assert {name: table.rows for name, table in status.tables.items()} == {
        name: tables.read(there, name).count() for name in (BRONZE, RECORDS, CONTROL)
    }
    beside = dataclasses.replace(given, source={"path": path, "startingOffsets": "0"}, checkpoint=None)
    with pytest.raises(UsageError, match=f"{root}/{CHECKPOINT}: Spark writes the checkpoint, and cannot write there"):
        start_pipeline(there, beside)


def offsets_of(frame: DataFrame) -> list[int]:
    return sorted(row["offset"] for row in frame.select("offset").collect())


def planned(uri: str, size_bytes: int = 10_000) -> list[Split]:
    (replica,) = find_replicas([uri])
    return list(plan_batch(replica, parse_options({"path": uri}), size_bytes=size_bytes).splits)


@pytest.fixture
def uri(proxy: Proxy, storage: Storage, tmp_path: Path) -> str:
    """A partition directory of three segments, in the bucket and in tmp_path."""
    del proxy
    make_node(tmp_path)
    storage.upload(tmp_path, f"s3://{tmp_path.name.replace('_', '-')}/n1")
    return f"s3://{tmp_path.name.replace('_', '-')}/n1/{PARTITION}"


def test_a_plan_is_that_of_the_files_and_asks_little(uri: str, proxy: Proxy, tmp_path: Path) -> None:
    proxy.requests.clear()
    found = planned(uri)
    targets = [target for _, target, _ in proxy.requests]
    assert sum("list-type" in target for target in targets) == 1
    per_segment = [sum(target.endswith(f"{Path(each.path).name}") for target in targets) for each in found]
    assert max(per_segment) <= 4
    here = planned(str(tmp_path / PARTITION))
    assert [(each.position, each.end_position, each.first, each.last) for each in found] == [
        (each.position, each.end_position, each.first, each.last) for each in here
    ]
    content = [b"".join(bytes(chunk.data) for chunk in read_chunks(split)) for split in found]
    assert content == [b"".join(bytes(chunk.data) for chunk in read_chunks(split)) for split in here]


def test_an_object_that_changes_between_plan_and_task(uri: str, storage: Storage, proxy: Proxy) -> None:
    split = planned(uri)[0]
    content = Files().read(located(split.path))
    storage.put(split.path, content[: len(content) // 2])
    with pytest.raises(CorruptionError, match=f"{split.path}: at position .*: expected a whole batch"):
        list(read_chunks(split))
    storage.put(split.path, batch([b"another"], base_offset=0, epoch=8) + content)
    with pytest.raises(UsageError, match=f"{split.path}: near position 0 stands .* was cut back and rewritten"):
        list(read_chunks(split))
    storage.remove(split.path)
    with pytest.raises(StorageError, match=f"{split.path}: cannot open: there is no such object"):
        list(read_chunks(split))
    proxy.answer(403, times=99)
    with pytest.raises(StorageError, match=f"{uri}: cannot list: access is denied"):
        planned(uri)


def test_a_bucket_without_segments(uri: str, storage: Storage) -> None:
    bucket = uri.split("/")[2]
    storage.put(f"s3://{bucket}/empty/readme.txt", b"nothing")
    for pattern in (f"s3://{bucket}/empty", f"s3://{bucket}/empty/*.log", f"s3://{bucket}/n1/absent"):
        with pytest.raises(UsageError, match="no segment files; give partition directories"):
            find_replicas([pattern])


def test_a_stream_lists_again_for_each_micro_batch(uri: str, storage: Storage) -> None:
    made = FilesStreamReader(parse_options({"path": uri}))
    start = made.initialOffset()
    first = [row for rows in run(made, start) for row in rows]
    (replica,) = find_replicas([uri])
    end = replica.end()
    storage.put(f"{uri}/{end:020d}.log", batch([b"later"], base_offset=end, epoch=2))
    then = made.latestOffset(start, made.getDefaultReadLimit())
    assert [offset for _, offset in read(made, start, then)] == [*(offset for _, offset in first), end]


def test_the_metadata_of_a_cluster_is_read_from_snapshots_and_logs_there(storage: Storage, proxy: Proxy) -> None:
    del proxy
    node = GOLDEN / "dynamic" / "disk" / "n1" / "data"
    storage.upload(node, "s3://metadata/n1")
    there = furthest([located("s3://metadata/n1")])
    assert str(there) == "s3://metadata/n1/__cluster_metadata-0"
    for moment in (NOW, Moment(end_offset=Offset(30))):
        expected = list(records_until(node / there.name, moment))
        assert expected
        assert list(records_until(there, moment)) == expected

"""Silver rows are the records of the bronze batches, equal to the source's own; control records are apart."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from pykraft.protocol.records import encode_control_batch
from pykraft.spark.pipeline import silver
from pykraft.spark.pipeline.silver import TABLE_COLUMNS, write_files
from pykraft.spark.tables.commit import ParquetFile
from pykraft.spark.tables.delta import file_columns
from pykraft.spark.tables.names import BRONZE, CONTROL, RECORDS, TABLES
from pykraft.types import Epoch, KRaftVersion, LeaderChange, NodeId, Offset
from tests.spark.logs import EPOCH, START_MS, batch, payload, three_batches, write_segment
from tests.spark.silver_frames import silver_control, silver_records

pytestmark = pytest.mark.spark

GOLDEN = Path(__file__).parents[2] / "golden"


def bronze(spark: SparkSession, *paths: Path | str, **options: str) -> DataFrame:
    """Rows of batches."""
    return source(spark, *paths, rows="batches", **options)


def source(spark: SparkSession, *paths: Path | str, **options: str) -> DataFrame:
    return spark.read.format("pykraft").options(**options).load([str(path) for path in paths])


@pytest.mark.parametrize("quorum", ["static/disk/n*/data/__cluster_metadata-0", "raft/disk/n*/data/__raft*-0"])
def test_records_are_those_that_the_source_reads(quorum: str, spark: SparkSession) -> None:
    paths = sorted(GOLDEN.glob(quorum))
    assert len(paths) > 1
    assertDataFrameEqual(silver_records(bronze(spark, *paths)), source(spark, *paths))


def test_batches_in_any_order_and_division_give_the_same_records(spark: SparkSession, tmp_path: Path) -> None:
    write_segment(tmp_path / "n1", b"".join(three_batches()))
    write_segment(tmp_path / "n1", batch([b"a3", b"b3"], base_offset=6), base_offset=6)
    write_segment(tmp_path / "n2", b"".join(three_batches()))
    shuffled = bronze(spark, tmp_path / "n1", tmp_path / "n2").orderBy("crc", "replica").repartition(3)
    assertDataFrameEqual(silver_records(shuffled), source(spark, tmp_path / "n1", tmp_path / "n2"))


def test_a_marked_batch_is_a_marked_row(spark: SparkSession, tmp_path: Path) -> None:
    first, second, third = three_batches()
    write_segment(tmp_path, first + second[:-1] + b"!" + third)
    assertDataFrameEqual(
        silver_records(bronze(spark, tmp_path, corrupt="mark")), source(spark, tmp_path, corrupt="mark")
    )


def test_control_records_are_told(spark: SparkSession, tmp_path: Path) -> None:
    voters = (NodeId(1), NodeId(2), NodeId(3))
    change = LeaderChange(leader_id=NodeId(2), voters=voters, granting_voters=voters[1:])
    control = encode_control_batch(
        [change, KRaftVersion(level=1)], base_offset=Offset(0), epoch=Epoch(EPOCH), timestamp_ms=START_MS
    ).data
    write_segment(tmp_path, control + batch([b"data"], base_offset=2))
    first, second = silver_control(source(spark, tmp_path)).orderBy("offset").collect()
    assert (first["offset"], first["epoch"], first["control_type"]) == (0, EPOCH, "LeaderChange")
    assert (first["leader_id"], first["voters"], first["granting_voters"]) == (2, [1, 2, 3], [2, 3])
    assert json.loads(first["body"])["leader_id"] == 2
    assert (second["control_type"], second["leader_id"], second["voters"]) == ("KRaftVersion", None, None)
    assert json.loads(second["body"])["k_raft_version"] == 1


def test_a_control_record_that_cannot_be_read_says_so(spark: SparkSession, tmp_path: Path) -> None:
    write_segment(tmp_path, three_batches()[0])
    broken = source(spark, tmp_path).selectExpr(
        "replica", "offset", "epoch", "timestamp", "true AS is_control", "control_type", "X'0000' AS key", "value"
    )
    bodies = [json.loads(row["body"]) for row in silver_control(broken).collect()]
    assert [list(body) for body in bodies] == [["problem"], ["problem"]]


@pytest.fixture
def log(tmp_path: Path) -> str:
    """Of two replicas: a control record, records of the workload and of others, a damaged batch, and more."""
    control = encode_control_batch(
        [KRaftVersion(level=1)], base_offset=Offset(0), epoch=Epoch(EPOCH), timestamp_ms=START_MS
    ).data
    workload = batch([payload(0), b"a stranger's", payload(1)], base_offset=1)
    damaged = batch([payload(2)], base_offset=4)[:-1] + b"!"
    more = [batch([payload(number)], base_offset=number + 2) for number in range(3, 20)]
    write_segment(tmp_path / "n1" / "p-0", control + workload + damaged + b"".join(more))
    write_segment(tmp_path / "n2" / "p-0", control + workload)
    return str(tmp_path / "n*" / "p-0")


def marked(spark: SparkSession, path: str, **options: str) -> DataFrame:
    return spark.read.format("pykraft").options(corrupt="mark", **options).load(path)


def folders_in(root: Path, names: Sequence[str] = TABLES) -> dict[str, Path]:
    found = {name: root / name for name in names}
    for folder in found.values():
        folder.mkdir(parents=True)
    return found


def read(spark: SparkSession, folder: Path, files: Sequence[ParquetFile], columns: str) -> DataFrame:
    paths = [str(folder / file.name) for file in files]
    return spark.read.schema(TABLE_COLUMNS[columns]).parquet(*paths)


def test_each_table_has_the_rows_that_it_would_have_alone(spark: SparkSession, tmp_path: Path, log: str) -> None:
    bronze, records = marked(spark, log, rows="batches"), marked(spark, log)
    folders = folders_in(tmp_path / "t")
    files = write_files(bronze, folders)
    wanted = {BRONZE: bronze, RECORDS: records, CONTROL: silver_control(records)}
    assert _rows_of(files) == {BRONZE: 22, RECORDS: 26, CONTROL: 2}
    for name in TABLES:
        assertDataFrameEqual(read(spark, folders[name], files[name], name), wanted[name], ignoreNullable=True)
        assert {path.name for path in folders[name].iterdir()} == {file.name for file in files[name]}, name


@pytest.mark.parametrize("names", [(BRONZE,), (CONTROL, RECORDS), ()])
def test_only_the_named_tables_are_written(names: Sequence[str], spark: SparkSession, tmp_path: Path, log: str) -> None:
    files = write_files(marked(spark, log, rows="batches"), folders_in(tmp_path / "t", names))
    assert sorted(files) == sorted(names)
    assert all(files.values())


@contextmanager
def setting(spark: SparkSession, key: str, value: str) -> Iterator[None]:
    before = spark.conf.get(key)
    assert before is not None
    spark.conf.set(key, value)
    try:
        yield
    finally:
        spark.conf.set(key, before)


def test_what_is_decoded_in_small_parts_becomes_one_row_group(spark: SparkSession, tmp_path: Path, log: str) -> None:
    bronze = marked(spark, log, rows="batches").coalesce(1)
    with setting(spark, "spark.sql.execution.arrow.maxRecordsPerBatch", "1"):
        folders = folders_in(tmp_path / "t")
        files = write_files(bronze, folders)
    for name in TABLES:
        (file,) = files[name]
        assert pq.read_metadata(folders[name] / file.name).num_row_groups == 1, name


def test_a_large_group_is_written_in_pieces(
    spark: SparkSession, tmp_path: Path, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(silver, "ROW_GROUP_SIZE_BYTES", 1_000)
    folders = folders_in(tmp_path / "t")
    files = write_files(marked(spark, log, rows="batches").coalesce(1), folders)
    assert _rows_of(files) == {BRONZE: 22, RECORDS: 26, CONTROL: 2}
    (file,) = files[BRONZE]
    footer = pq.read_metadata(folders[BRONZE] / file.name)
    assert footer.num_row_groups > 2


def test_files_of_a_task_that_failed_late_and_was_tried_again_are_not_reported(
    spark: SparkSession, tmp_path: Path, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt of each task leaves sound files of all tables."""

    def tell_and_fail(file: ParquetFile) -> list[pa.Array]:
        if cast("TaskContext", TaskContext.get()).attemptNumber() == 0:
            raise RuntimeError("late")
        return file_columns(file)

    monkeypatch.setattr(silver, "file_columns", tell_and_fail)
    folders = folders_in(tmp_path / "t")
    files = write_files(marked(spark, log, rows="batches"), folders)
    assert _rows_of(files) == {BRONZE: 22, RECORDS: 26, CONTROL: 2}
    for name in TABLES:
        assert len(list(folders[name].iterdir())) == 2 * len(files[name]), name


def _rows_of(files: Mapping[str, Sequence[ParquetFile]]) -> dict[str, int]:
    return {name: sum(file.rows for file in of_table) for name, of_table in files.items()}

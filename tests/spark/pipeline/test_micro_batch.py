"""One pass writes the rows of all tables, each into its files, and reports those of successful attempts only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom
from pyspark.testing import assertDataFrameEqual

from lab.demo.audit import payload_columns
from pykraft.protocol.records import encode_control_batch
from pykraft.spark.pipeline import micro_batch, silver
from pykraft.spark.pipeline.micro_batch import TABLE_COLUMNS, write_files
from pykraft.spark.tables.names import BRONZE, CONTROL, PAYLOADS, RECORDS, TABLES
from pykraft.spark.tables.parquet_files import file_columns
from pykraft.spark.tables.parquet_writer import ParquetFile
from pykraft.types import Epoch, KRaftVersion, Offset
from tests.spark.logs import EPOCH, START_MS, batch, payload, write_segment

pytestmark = pytest.mark.spark


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


def source(spark: SparkSession, path: str, **options: str) -> DataFrame:
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
    bronze, records = source(spark, log, rows="batches"), source(spark, log)
    folders = folders_in(tmp_path / "t")
    files = write_files(bronze, folders)
    payloads = payload_columns(records).withColumn("size_bytes", F.length("value")).select(*silver.PAYLOADS.names)
    wanted = {BRONZE: bronze, RECORDS: records, CONTROL: silver.control(records), PAYLOADS: payloads}
    assert _rows_of(files) == {BRONZE: 22, RECORDS: 26, CONTROL: 2, PAYLOADS: 21}
    for name in TABLES:
        assertDataFrameEqual(read(spark, folders[name], files[name], name), wanted[name], ignoreNullable=True)
        assert {path.name for path in folders[name].iterdir()} == {file.name for file in files[name]}, name


@pytest.mark.parametrize("names", [(BRONZE,), (CONTROL, PAYLOADS), ()])
def test_only_the_named_tables_are_written(names: Sequence[str], spark: SparkSession, tmp_path: Path, log: str) -> None:
    files = write_files(source(spark, log, rows="batches"), folders_in(tmp_path / "t", names))
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
    bronze = source(spark, log, rows="batches").coalesce(1)
    with setting(spark, "spark.sql.execution.arrow.maxRecordsPerBatch", "1"):
        folders = folders_in(tmp_path / "t")
        files = write_files(bronze, folders)
    for name in TABLES:
        (file,) = files[name]
        assert pq.read_metadata(folders[name] / file.name).num_row_groups == 1, name


def test_a_large_group_is_written_in_pieces(
    spark: SparkSession, tmp_path: Path, log: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(micro_batch, "ROW_GROUP_SIZE_BYTES", 1_000)
    folders = folders_in(tmp_path / "t")
    files = write_files(source(spark, log, rows="batches").coalesce(1), folders)
    assert _rows_of(files) == {BRONZE: 22, RECORDS: 26, CONTROL: 2, PAYLOADS: 21}
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

    monkeypatch.setattr(micro_batch, "file_columns", tell_and_fail)
    folders = folders_in(tmp_path / "t")
    files = write_files(source(spark, log, rows="batches"), folders)
    assert _rows_of(files) == {BRONZE: 22, RECORDS: 26, CONTROL: 2, PAYLOADS: 21}
    for name in TABLES:
        assert len(list(folders[name].iterdir())) == 2 * len(files[name]), name


def _rows_of(files: Mapping[str, Sequence[ParquetFile]]) -> dict[str, int]:
    return {name: sum(file.rows for file in of_table) for name, of_table in files.items()}

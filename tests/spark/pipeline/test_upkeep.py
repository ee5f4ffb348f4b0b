"""Upkeep of a pipeline's tables, by command and by the stream."""

import dataclasses
from dataclasses import asdict
from pathlib import Path
from typing import TypeAlias

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pykraft.errors import UsageError
from pykraft.spark.pipeline import upkeep
from pykraft.spark.pipeline.run import PipelineOptions, start_pipeline
from pykraft.spark.pipeline.upkeep import keep_stream_tables, keep_tables
from pykraft.spark.tables import delta_upkeep
from pykraft.spark.tables.commit import newest_commit, offsets_in
from pykraft.spark.tables.delta_upkeep import files_of
from pykraft.spark.tables.names import BRONZE, EPOCHS, PARQUET_COLUMNS, RECORDS, TABLES
from tests.spark.logs import write_segment
from tests.spark.pipeline.test_run import batches, offsets, options
from tests.spark.tables.files import append, commit, make_table

pytestmark = pytest.mark.spark

Versions: TypeAlias = dict[int, list[int]]


def test_all_tables_that_are_there_are_kept(tmp_path: Path) -> None:
    for name in (BRONZE, RECORDS, EPOCHS):
        make_table(tmp_path / name, appends=3)
    told: list[tuple[str, int]] = []
    found = keep_tables(tmp_path, on_progress=lambda name, size_bytes: told.append((name, size_bytes)))
    assert list(found.tables) == [BRONZE, RECORDS, EPOCHS]
    for name, done in found.tables.items():
        assert (done.files_before, done.files, done.deleted_files) == (3, 1, 0), name
        assert done.rewritten_bytes > 0
        assert newest_commit(DeltaTable(tmp_path / name)) == commit(2)
        assert list((tmp_path / name / "_delta_log").glob("*.checkpoint.parquet"))
    assert told[:2] == [(BRONZE, 0), (BRONZE, found.tables[BRONZE].rewritten_bytes)]
    again = keep_tables(tmp_path, retention_hours=0)
    assert [done.deleted_files for done in again.tables.values()] == [3, 3, 3]
    assert asdict(again)["tables"][BRONZE]["rewritten_bytes"] == 0


def test_folders_without_delta_tables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there are no tables; pykraft pipeline run creates them"):
        keep_tables(tmp_path)
    (tmp_path / BRONZE).mkdir()
    (tmp_path / BRONZE / PARQUET_COLUMNS).touch()
    with pytest.raises(UsageError, match="Parquet tables of an earlier version; pykraft pipeline run converts them"):
        keep_tables(tmp_path)


def test_a_stream_merges_now_and_then_and_deletes_less_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "VACUUM_INTERVAL", 2)
    deleted: list[Path] = []
    monkeypatch.setattr(delta_upkeep, "vacuum", deleted.append)
    for name in TABLES:
        make_table(tmp_path / name, appends=0)
    files = []
    for number in range(6):
        for name in TABLES:
            append(tmp_path / name, number)
        keep_stream_tables(tmp_path, number, interval=3)
        files.append(files_of(tmp_path / RECORDS))
    assert files == [1, 2, 1, 2, 3, 1]
    assert deleted == [tmp_path / name for name in TABLES]
    append(tmp_path / RECORDS, 6)
    keep_stream_tables(tmp_path, 8, interval=0)
    assert files_of(tmp_path / RECORDS) == 2


def reached(given: PipelineOptions) -> int:
    """The last table holds everything below this offset."""
    newest = given.tables().newest(RECORDS)
    return 0 if newest is None else max(offsets_in(newest.end).values(), default=0)


def keep_until(end_offset: int, query: StreamingQuery, given: PipelineOptions, *, retention_hours: int) -> Versions:
    """Upkeep again and again until the stream has filled the tables up to there, and once more.

    Returns the versions of the records' table before each upkeep, and their rows.
    """
    seen: Versions = {}
    is_done = False
    while not is_done:
        is_done = reached(given) == end_offset
        assert not query.awaitTermination(0.1), "the stream goes on"
        if all(given.tables().has(name) for name in TABLES):
            records = DeltaTable(given.root / RECORDS)
            seen[records.version()] = rows_of(records)
            keep_tables(given.root, retention_hours=retention_hours)
    return seen


def rows_of(table: DeltaTable) -> list[int]:
    found: list[int] = table.to_pyarrow_table()["offset"].to_pylist()
    return sorted(found)


def test_a_stream_and_upkeep_do_not_disturb_each_other_or_readers(spark: SparkSession, tmp_path: Path) -> None:
    """1. The stream merges, too. 2. It starts again and does not; upkeep deletes all that is out of use."""
    partition = tmp_path / "n1" / "p-0"
    write_segment(partition, batches(0, 10))
    merging = dataclasses.replace(options(tmp_path), follow=True, upkeep_interval=2)
    query = start_pipeline(spark, merging)
    try:
        # 1.
        seen = keep_until(20, query, merging, retention_hours=168)
    finally:
        query.stop()
    folder = merging.root / RECORDS
    now = set(DeltaTable(folder).file_uris())
    assert any(set(DeltaTable(folder, version=version).file_uris()) - now for version in seen), "something was merged"
    assert {version: rows_of(DeltaTable(folder, version=version)) for version in seen} == seen
    write_segment(partition, batches(10, 6), base_offset=20)
    appending = dataclasses.replace(merging, upkeep_interval=0)
    query = start_pipeline(spark, appending)
    try:
        # 2.
        keep_until(32, query, appending, retention_hours=0)
        write_segment(partition, batches(16, 2), base_offset=32)
        query.processAllAvailable()
    finally:
        query.stop()
    assert offsets(spark, appending, BRONZE) == list(range(0, 36, 2))
    assert offsets(spark, appending, RECORDS) == list(range(36))
    for name in (BRONZE, RECORDS):
        assert len(list((appending.root / name).glob("*.parquet"))) == files_of(appending.root / name) <= 3, name

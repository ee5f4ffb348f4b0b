"""Parquet tables of an earlier version become Delta tables with the same rows, which the stream continues."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pykraft.errors import StorageError
from pykraft.spark.tables import former_parquet
from pykraft.spark.tables.commit import Commit
from pykraft.spark.tables.delta import DeltaTables, write_parquet_files
from pykraft.spark.tables.former_parquet import convert_parquet_tables
from pykraft.spark.tables.names import PARQUET_COLUMNS, RECORDS
from tests.spark.tables.files import append_rows, commit, frame

pytestmark = pytest.mark.spark


def former_table(spark: SparkSession, root: Path, *commits: Commit) -> DeltaTables:
    """A table with two rows an append, as version 0.1 wrote it; a killed task left a file of the next one."""
    folder = root / RECORDS
    for number, each in enumerate(commits):
        append = folder / f"{each.stream}-{each.batch_id:010}"
        write_parquet_files(frame(spark, 2 * number, 2 * number + 1), append)
        (append / "_commit.json").write_text(json.dumps({"number": number, "commit": each.as_json()}))
    write_parquet_files(frame(spark, 99), folder / ".s-0000000002-tasks")
    (folder / PARQUET_COLUMNS).write_text(frame(spark).schema.json())
    return DeltaTables(root)


def ids(spark: SparkSession, tables: DeltaTables) -> list[int]:
    return sorted(row["id"] for row in tables.read(spark, RECORDS).collect())


def test_a_parquet_table_becomes_a_delta_table_that_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    another = commit(0, stream="a stream that began later", start=20)
    tables = former_table(spark, tmp_path, commit(0), commit(1), another)
    convert_parquet_tables(tables)
    assert ids(spark, tables) == list(range(6))
    assert tables.newest(RECORDS) == another
    convert_parquet_tables(tables)
    assert append_rows(tables, RECORDS, frame(spark, 6), commit(1, stream=another.stream, start=30)) == 1
    assert ids(spark, tables) == list(range(7))
    assert {path.name for path in (tmp_path / RECORDS).iterdir() if path.suffix != ".parquet"} == {"_delta_log"}


def test_a_conversion_that_was_killed_is_repeated(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = former_table(spark, tmp_path, commit(0), commit(1))

    def die(folder: Path) -> None:
        if tables.has(RECORDS):
            raise KeyboardInterrupt(folder)

    with monkeypatch.context() as killed:
        killed.setattr(former_parquet, "sync_folder", die)
        with pytest.raises(KeyboardInterrupt):
            convert_parquet_tables(tables)
    assert ids(spark, tables) == [0, 1]
    convert_parquet_tables(tables)
    assert ids(spark, tables) == [0, 1, 2, 3]


def test_an_append_that_does_not_say_which_it_is_ends_the_conversion(spark: SparkSession, tmp_path: Path) -> None:
    tables = former_table(spark, tmp_path, commit(0))
    (tmp_path / RECORDS / "s-0000000000" / "_commit.json").write_text("{}")
    with pytest.raises(StorageError, match="cannot be converted"):
        convert_parquet_tables(tables)

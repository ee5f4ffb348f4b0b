"""Each append is in a table once and complete, even after a kill, and other readers of Delta see the same rows."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom
from pyspark.testing import assertDataFrameEqual

from pykraft.errors import StorageError, UsageError
from pykraft.spark.data_source.selection import columns_of
from pykraft.spark.tables import commit as commits
from pykraft.spark.tables import delta
from pykraft.spark.tables.commit import Commit, ParquetFile, add_action, write_parquet_file
from pykraft.spark.tables.delta import DeltaTables, added_columns, convert_parquet_tables, write_parquet_files
from pykraft.spark.tables.names import PARQUET_COLUMNS, RECORDS
from tests.spark.tables.files import append_rows, commit, frame, ids

pytestmark = pytest.mark.spark


def test_other_readers_see_the_same_delta_table(tmp_path: Path, spark: SparkSession) -> None:
    tables = DeltaTables(tmp_path)
    append_rows(tables, "t", frame(spark, 1, 2), commit(0))
    read = DeltaTable(tmp_path / "t")
    assert read.count() == 2
    assert read.transaction_version("s") == 0
    assert sorted(read.to_pyarrow_table()["id"].to_pylist()) == [1, 2]


@pytest.mark.parametrize("before", [0, 1], ids=["the first", "a later one"])
def test_files_of_an_append_that_was_killed_before_its_commit_are_in_no_table(
    before: int, tmp_path: Path, spark: SparkSession
) -> None:
    tables = DeltaTables(tmp_path)
    for number in range(before):
        append_rows(tables, "t", frame(spark, number), commit(number))
    rows = frame(spark, 7, 8)
    killed = tables.begin("t", rows.schema, commit(before))
    assert killed is not None
    assert write_parquet_files(rows, killed.folder)
    assert tables.has("t") == (before > 0)
    assert append_rows(tables, "t", rows, commit(before)) == 2
    assert ids(spark, tables) == [*range(before), 7, 8]
    assert len(list((tmp_path / "t").glob("*.parquet"))) > len(DeltaTable(tmp_path / "t").file_uris())


def test_an_append_that_another_program_made_meanwhile_is_not_made_again(tmp_path: Path, spark: SparkSession) -> None:
    """Two drivers of one checkpoint write the same micro-batch, and the slower one commits what the other one has."""
    tables, rows = DeltaTables(tmp_path), frame(spark, 2, 3)
    append_rows(tables, "t", frame(spark, 1), commit(0))
    slow = tables.begin("t", rows.schema, commit(1))
    assert slow is not None
    files = write_parquet_files(rows, slow.folder)
    assert append_rows(tables, "t", rows, commit(1)) == 2
    assert slow.finish(files) is None
    assert ids(spark, tables) == [1, 2, 3]


def test_commits_of_other_writers_in_between_are_passed_over(tmp_path: Path, spark: SparkSession) -> None:
    tables = DeltaTables(tmp_path)
    for number in range(2):
        append_rows(tables, "t", frame(spark, number), commit(number))
    DeltaTable(tmp_path / "t").optimize.compact()
    assert tables.newest("t") == commit(1)
    assert append_rows(tables, "t", frame(spark, 1), commit(1)) is None
    assert append_rows(tables, "t", frame(spark, 2), commit(2)) == 1
    assert ids(spark, tables) == [0, 1, 2]


def test_an_append_is_tried_again_when_others_change_the_table(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program adds a property while the tasks write, once and then each time."""
    tables = DeltaTables(tmp_path)
    append_rows(tables, "t", frame(spark, 1), commit(0))
    changes = 1

    def add_late(file: ParquetFile) -> AddAction:
        nonlocal changes
        if changes:
            changes -= 1
            DeltaTable(tmp_path / "t").alter.set_table_properties({"delta.checkpointInterval": str(100 + changes)})
        return add_action(file)

    monkeypatch.setattr(commits, "add_action", add_late)
    assert append_rows(tables, "t", frame(spark, 2).coalesce(1), commit(1)) == 1
    assert ids(spark, tables) == [1, 2]
    changes = delta.COMMIT_ATTEMPTS_MAX
    with pytest.raises(StorageError, match="other programs change the table all the time"):
        append_rows(tables, "t", frame(spark, 3).coalesce(1), commit(2))
    assert ids(spark, tables) == [1, 2]


@pytest.fixture
def tables(tmp_path: Path) -> DeltaTables:
    return DeltaTables(tmp_path / "tables")


def test_rows_come_back_as_they_went_in(tables: DeltaTables, spark: SparkSession) -> None:
    assert not tables.has("t")
    assert append_rows(tables, "t", frame(spark, 1, 2), commit(0)) == 2
    assert append_rows(tables, "t", frame(spark, 3), commit(1)) == 1
    assert tables.has("t")
    assertDataFrameEqual(tables.read(spark, "t"), frame(spark, 1, 2, 3))


def test_a_micro_batch_that_is_repeated_is_there_once(tables: DeltaTables, spark: SparkSession) -> None:
    assert tables.newest("t") is None
    append_rows(tables, "t", frame(spark, 1), commit(0))
    append_rows(tables, "t", frame(spark, 2), commit(1))
    assert append_rows(tables, "t", frame(spark, 2), commit(1)) is None
    assert append_rows(tables, "t", frame(spark, 1), commit(0)) is None
    assert tables.newest("t") == commit(1)
    assert ids(spark, tables) == [1, 2]


def test_another_stream_may_go_on_where_the_table_ends(tables: DeltaTables, spark: SparkSession) -> None:
    append_rows(tables, "t", frame(spark, 1), commit(0))
    append_rows(tables, "t", frame(spark, 2), commit(1))
    for number in range(2):
        follower = commit(number, stream="another", start=20 + 10 * number)
        assert append_rows(tables, "t", frame(spark, 3 + number), follower) == 1
        assert append_rows(tables, "t", frame(spark, 3 + number), follower) is None
        assert tables.newest("t") == follower
    assert append_rows(tables, "t", frame(spark, 1), commit(0)) is None
    assert ids(spark, tables) == [1, 2, 3, 4]


def test_a_micro_batch_that_does_not_follow_is_refused(tables: DeltaTables, spark: SparkSession) -> None:
    append_rows(tables, "t", frame(spark, 1), commit(0))
    append_rows(tables, "t", frame(spark, 2), commit(1))
    rows = frame(spark, 3)
    too_old, does_not_follow = "is .* the checkpoint is too old", "rows would be missing or duplicated"
    for what, wrong, told in (
        ("old number", commit(0, end=7), f"micro-batch 0 of the checkpoint {too_old}"),
        ("last number", commit(1, end=30), f"micro-batch 1 of the checkpoint {too_old}"),
        ("everything anew", commit(0, stream="another"), does_not_follow),
        ("overlap", commit(2, start=19), does_not_follow),
        ("gap", commit(3), does_not_follow),
    ):
        with pytest.raises(UsageError, match=f"{told}.*restore the checkpoint"):
            append_rows(tables, "t", rows, wrong)
        assert tables.newest("t") == commit(1), what
    assert ids(spark, tables) == [1, 2]


def test_a_table_that_is_gone_while_its_checkpoint_goes_on_is_told(tables: DeltaTables, spark: SparkSession) -> None:
    with pytest.raises(UsageError, match="at micro-batch 3, but the table with the earlier rows is gone"):
        append_rows(tables, "t", frame(spark, 3), commit(3))


def test_a_table_that_does_not_know_what_it_holds_is_not_written_to(tables: DeltaTables, spark: SparkSession) -> None:
    tables.replace("t", frame(spark, 1))
    assert tables.newest("t") is None
    with pytest.raises(UsageError, match="does not record which part of the log it holds"):
        append_rows(tables, "t", frame(spark, 2), commit(0))


def test_a_micro_batch_without_rows_makes_the_table_too(tables: DeltaTables, spark: SparkSession) -> None:
    assert append_rows(tables, "t", frame(spark), commit(0)) == 0
    assertDataFrameEqual(tables.read(spark, "t"), frame(spark))
    assert append_rows(tables, "t", frame(spark, 1), commit(1)) == 1
    assert ids(spark, tables) == [1]


def test_rows_of_a_task_that_fails_are_in_no_table(tables: DeltaTables, spark: SparkSession) -> None:
    append_rows(tables, "t", frame(spark, 1), commit(0))
    broken = frame(spark, 2, 3).withColumn(
        "id", F.when(F.col("id") == 3, F.raise_error(F.lit("no")).cast("long")).otherwise(F.col("id"))
    )
    with pytest.raises(Exception, match="no"):
        append_rows(tables, "t", broken, commit(1))
    assert ids(spark, tables) == [1]
    append_rows(tables, "t", frame(spark, 2, 3), commit(1))
    assert ids(spark, tables) == [1, 2, 3]


def test_a_table_that_is_made_anew_has_the_new_rows_alone(tables: DeltaTables, spark: SparkSession) -> None:
    assert tables.replace("t", frame(spark, 1, 2)) == 2
    assert tables.replace("t", frame(spark, 3)) == 1
    assertDataFrameEqual(tables.read(spark, "t"), frame(spark, 3))
    with pytest.raises(UsageError, match="the table has columns that this version of pykraft does not write, at, name"):
        tables.replace("t", frame(spark, 1).select("id"))
    assert tables.replace("t", frame(spark)) == 0
    assert ids(spark, tables) == []


def test_columns_that_only_newer_rows_have_are_null_in_older_ones(tables: DeltaTables, spark: SparkSession) -> None:
    older = frame(spark, 1).drop("name", "is_even")
    append_rows(tables, "t", older, commit(0))
    append_rows(tables, "t", frame(spark, 2), commit(1))
    assert append_rows(tables, "t", older, commit(0)) is None
    assert append_rows(tables, "t", frame(spark, 3), commit(2)) == 1
    read = tables.read(spark, "t")
    assert read.columns == ["id", "at", "content", "name", "is_even"]
    null = F.lit(None)
    wanted = older.withColumns({"name": null.cast("string"), "is_even": null.cast("boolean")})
    assertDataFrameEqual(read, wanted.unionByName(frame(spark, 2, 3)))
    tables.replace("r", older)
    tables.replace("r", frame(spark, 2))
    assertDataFrameEqual(tables.read(spark, "r").select(frame(spark).columns), frame(spark, 2))


def test_an_added_column_is_nullable_even_if_its_rows_are_not() -> None:
    table, rows = columns_of("id bigint not null"), columns_of("crc bigint not null, id bigint not null")
    assert added_columns(Path("t"), table, rows) == columns_of("crc bigint")


def test_columns_that_the_rows_lack_or_that_have_another_type_are_refused(
    tables: DeltaTables, spark: SparkSession
) -> None:
    append_rows(tables, "t", frame(spark, 1), commit(0))
    told = r"t: the table has columns .* does not write, name, is_even: a newer version .* added them. Use that version"
    with pytest.raises(UsageError, match=told):
        append_rows(tables, "t", frame(spark, 2).drop("name", "is_even"), commit(1))
    with pytest.raises(UsageError, match="the column id is bigint in the table and string in the rows: write to anoth"):
        append_rows(tables, "t", frame(spark, 2).withColumn("id", F.col("id").cast("string")), commit(1))
    assert ids(spark, tables) == [1]


def test_a_table_that_is_not_there_is_told(tables: DeltaTables, spark: SparkSession) -> None:
    with pytest.raises(UsageError, match=r"there is no table t; pykraft pipeline run creates it"):
        tables.read(spark, "t")


def test_a_folder_that_cannot_be_written_is_an_error(tables: DeltaTables, spark: SparkSession) -> None:
    tables.root.write_bytes(b"a file stands here")
    with pytest.raises(StorageError):
        append_rows(tables, "t", frame(spark, 1), commit(0))


@pytest.mark.parametrize("fails", ["with its last row", "when its file is whole"])
def test_rows_of_a_task_that_failed_late_and_was_tried_again_are_there_once(
    fails: str, tables: DeltaTables, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt of each task leaves a sound file of all its rows."""
    write_one, is_late = write_parquet_file, fails == "when its file is whole"

    def write_and_fail(groups: Iterator[pa.RecordBatch], folder: Path, columns: pa.Schema) -> ParquetFile | None:
        is_first = cast("TaskContext", TaskContext.get()).attemptNumber() == 0

        def broken() -> Iterator[pa.RecordBatch]:
            yield from groups
            if is_first and not is_late:
                raise RuntimeError("late")

        part = write_one(broken(), folder, columns)
        if is_first:
            raise RuntimeError("later")
        return part

    monkeypatch.setattr(commits, "write_parquet_file", write_and_fail)
    rows = frame(spark, *range(10)).repartition(2)
    assert append_rows(tables, "t", rows, commit(0)) == 10
    assert tables.replace("r", rows) == 10
    monkeypatch.undo()
    assert ids(spark, tables) == list(range(10))
    assert tables.read(spark, "r").count() == 10


def test_each_task_with_rows_writes_one_file(spark: SparkSession, tmp_path: Path) -> None:
    rows = frame(spark, *range(10)).repartition(3)
    parts = write_parquet_files(rows.unionAll(frame(spark)), tmp_path / "made" / "here")
    assert sum(part.rows for part in parts) == 10
    for part in parts:
        path = tmp_path / "made" / "here" / part.name
        assert (path.stat().st_size, pq.read_metadata(path).num_rows) == (part.size_bytes, part.rows)
        assert part.rows > 0
        assert abs(path.stat().st_mtime * 1_000 - part.modified_ms) < 2


def test_a_folder_that_cannot_be_made_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot be made"):
        write_parquet_files(frame(spark, 1), tmp_path / "file" / "t")


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


def rows_of(spark: SparkSession, tables: DeltaTables) -> list[int]:
    return sorted(row["id"] for row in tables.read(spark, RECORDS).collect())


def test_a_parquet_table_becomes_a_delta_table_that_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    another = commit(0, stream="a stream that began later", start=20)
    tables = former_table(spark, tmp_path, commit(0), commit(1), another)
    convert_parquet_tables(tables)
    assert rows_of(spark, tables) == list(range(6))
    assert tables.newest(RECORDS) == another
    convert_parquet_tables(tables)
    assert append_rows(tables, RECORDS, frame(spark, 6), commit(1, stream=another.stream, start=30)) == 1
    assert rows_of(spark, tables) == list(range(7))
    assert {path.name for path in (tmp_path / RECORDS).iterdir() if path.suffix != ".parquet"} == {"_delta_log"}


def test_a_conversion_that_was_killed_is_repeated(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = former_table(spark, tmp_path, commit(0), commit(1))

    def die(folder: Path) -> None:
        if tables.has(RECORDS):
            raise KeyboardInterrupt(folder)

    with monkeypatch.context() as killed:
        killed.setattr(delta, "sync_folder", die)
        with pytest.raises(KeyboardInterrupt):
            convert_parquet_tables(tables)
    assert rows_of(spark, tables) == [0, 1]
    convert_parquet_tables(tables)
    assert rows_of(spark, tables) == [0, 1, 2, 3]


def test_an_append_that_does_not_say_which_it_is_ends_the_conversion(spark: SparkSession, tmp_path: Path) -> None:
    tables = former_table(spark, tmp_path, commit(0))
    (tmp_path / RECORDS / "s-0000000000" / "_commit.json").write_text("{}")
    with pytest.raises(StorageError, match="cannot be converted"):
        convert_parquet_tables(tables)

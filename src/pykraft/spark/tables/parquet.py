"""Tables as plain Parquet files, for readers without Delta.

Each append is a folder ``<root>/<name>/<stream>-<batch id>``. Invariant: such a folder is complete, and holds exactly
the files that successful tasks reported. Steps of an append:

1. Tasks write into a hidden folder of their own. Failed attempts, and copies of slow tasks that Spark started, may
   leave valid files there that no task reported.
2. The driver moves the reported files into another hidden folder, and writes the commit into it.
3. The driver removes the tasks' folder, so that an attempt that still runs cannot write any more.
4. The driver syncs its folder and renames it: now the append is visible.

The leftovers of a killed driver start with a dot or an underscore. Every reader of Parquet folders ignores such names,
and the next append removes them.

Source: Spark's ``HadoopMapReduceCommitProtocol`` (task attempts, job commit); the rename of POSIX is atomic.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pykraft.errors import StorageError
from pykraft.spark.tables.commit import Commit, check_first, is_new
from pykraft.spark.tables.names import COLUMNS
from pykraft.spark.tables.parquet_files import write_parquet_files
from pykraft.spark.tables.parquet_writer import ParquetFile, make_folder, sync_folder
from pykraft.spark.tables.table import added_columns, no_table, rows_of

COMMIT: Final = "_commit.json"
STREAM: Final = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """The content of an append's commit file; ``number`` counts the appends of all streams."""

    number: int
    commit: Commit


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetAppend:
    """See `pykraft.spark.tables.table.TableAppend`; ``done`` is the folder of the append when it is finished."""

    folder: Path
    done: Path
    columns: StructType
    content: _Kept

    def finish(self, files: Sequence[ParquetFile]) -> int:
        """See `TableAppend`; no other program appends."""
        table = self.done.parent
        whole = table / f".{self.done.name}"
        try:
            # 2. and 3.
            _collect(files, tasks=self.folder, whole=whole)
            content = {"number": self.content.number, "commit": self.content.commit.as_json()}
            _write_synced(whole / COMMIT, json.dumps(content))
            if not (table / COLUMNS).is_file() or self.columns != _columns(table):
                _write_synced(table / COLUMNS, self.columns.json())
                sync_folder(table.parent)
            # 4. A reader sees the whole append or nothing.
            sync_folder(whole)
            whole.rename(self.done)
            sync_folder(table)
        except OSError as error:
            raise StorageError(table, f"the rows cannot be written: {error.strerror}") from error
        return sum(file.rows for file in files)


class ParquetTables:
    """See `pykraft.spark.tables.table.Tables`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def has(self, name: str) -> bool:
        """See `Tables`."""
        return (self.root / name / COLUMNS).is_file()

    def replace(self, name: str, frame: DataFrame) -> int:
        """See `Tables`; between the two renames a reader finds no table, but never half of one."""
        folder = self.root / name
        columns = _all_columns(folder, frame.schema) if self.has(name) else frame.schema
        fresh, former, tasks = (self.root / f".{name}-{what}" for what in ("fresh", "former", "tasks"))
        try:
            for left in (fresh, former, tasks):
                shutil.rmtree(left, ignore_errors=True)
            told = write_parquet_files(frame, tasks)
            _collect(told, tasks=tasks, whole=fresh / "whole")
            _write_synced(fresh / COLUMNS, columns.json())
            if folder.is_dir():
                folder.rename(former)
            fresh.rename(folder)
            sync_folder(self.root)
            shutil.rmtree(former, ignore_errors=True)
        except OSError as error:
            raise StorageError(folder, f"the rows cannot be written: {error.strerror}") from error
        return sum(file.rows for file in told)

    def begin(self, name: str, columns: StructType, commit: Commit) -> ParquetAppend | None:
        """See `Tables`; tasks write into a hidden folder of this append."""
        assert STREAM.fullmatch(commit.stream), f"{commit.stream} names a folder"
        table = self.root / name
        done = table / f"{commit.stream}-{commit.batch_id:010d}"
        number = 0
        if made := _appends(table):
            newest = _newest(made)
            same = _read_commit(done)
            if not is_new(table, commit, same=same.commit if same else None, newest=newest.commit if newest else None):
                return None
            assert newest is not None, "is_new refuses a table that does not know its newest append"
            number = newest.number + 1
            columns = _all_columns(table, columns)
        else:
            check_first(table, commit)
        for left in table.glob(".*/"):
            shutil.rmtree(left, ignore_errors=True)
        # 1. Tasks write here.
        folder = table / f".{done.name}-tasks"
        make_folder(folder)
        return ParquetAppend(folder=folder, done=done, columns=columns, content=_Kept(number=number, commit=commit))

    def newest(self, name: str) -> Commit | None:
        """See `Tables`."""
        found = _newest(_appends(self.root / name))
        return None if found is None else found.commit

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """See `Tables`."""
        if not self.has(name):
            raise no_table(self.root, name)
        folder = self.root / name
        return rows_of(spark, _columns(folder), [str(path) for path in sorted(folder.glob("[!._]*/*.parquet"))])


def _appends(folder: Path) -> list[Path]:
    return [path for path in folder.glob("[!._]*") if path.is_dir()]


def _newest(appends: Iterable[Path]) -> _Kept | None:
    """The newest append; reads only the last one of each stream. None if one of them has no commit file."""
    last: dict[str, Path] = {}
    for path in sorted(appends, key=lambda path: path.name):
        last[path.name.rpartition("-")[0]] = path
    kept = [_read_commit(path) for path in last.values()]
    known = [each for each in kept if each is not None]
    return max(known, key=lambda each: each.number) if known and len(known) == len(kept) else None


def _read_commit(append: Path) -> _Kept | None:
    """None if there is no such file. Errors: StorageError if it is damaged."""
    path = append / COMMIT
    try:
        found = json.loads(path.read_text())
        return _Kept(number=found["number"], commit=Commit.from_json(found["commit"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(path, f"does not tell which append this is: {error}") from error


def _collect(files: Sequence[ParquetFile], *, tasks: Path, whole: Path) -> None:
    """Move the reported files of the tasks' folder into another one, and remove the first. Errors: OSError."""
    whole.mkdir(parents=True)
    # 2. Only what a successful task reported counts.
    for file in files:
        (tasks / file.name).rename(whole / file.name)
    # 3. An attempt that still runs now fails instead of writing.
    shutil.rmtree(tasks, ignore_errors=True)
    sync_folder(whole)


def _columns(folder: Path) -> StructType:
    return StructType.fromJson(json.loads((folder / COLUMNS).read_text()))


def _all_columns(folder: Path, rows: StructType) -> StructType:
    """The columns of the table with those that these rows add. Errors: as `added_columns`."""
    have = _columns(folder)
    return StructType([*have, *added_columns(folder, have, rows)])


def _write_synced(path: Path, text: str) -> None:
    attempt = path.with_name(f".{path.name}")
    with attempt.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    attempt.rename(path)

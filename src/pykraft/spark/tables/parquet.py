"""Tables as plain Parquet files, for readers that know no Delta.

Owns the folders ``<root>/<name>/<stream>-<batch id>``. Invariant: such a folder is whole: it is written under another
name, synced, and renamed; so an append was made when its folder is there. What a killed attempt left begins with a dot
or an underscore, which every reader of Parquet folders passes over, and the next attempt removes it.

Source: Spark's committers; the rename of POSIX is atomic.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pykraft.errors import StorageError, UsageError
from pykraft.spark.tables.parts import write_parts
from pykraft.spark.tables.table import no_table

COLUMNS = "_columns.json"
STREAM = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)


class ParquetTables:
    """See `pykraft.spark.tables.table.Tables`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def root(self) -> Path:
        """See `Tables`."""
        return self._root

    def has(self, name: str) -> bool:
        """See `Tables`."""
        return (self._root / name / COLUMNS).is_file()

    def replace(self, name: str, frame: DataFrame) -> int:
        """See `Tables`; a reader who comes between two renames finds no table, never half of one."""
        folder = self._root / name
        if self.has(name):
            _check_columns(folder, frame)
        fresh, former = self._root / f".{name}-fresh", self._root / f".{name}-former"
        try:
            for left in (fresh, former):
                shutil.rmtree(left, ignore_errors=True)
            parts = write_parts(frame, fresh / "whole")
            _write_synced(fresh / COLUMNS, frame.schema.json())
            _sync_folder(fresh / "whole")
            if folder.is_dir():
                folder.rename(former)
            fresh.rename(folder)
            _sync_folder(self._root)
            shutil.rmtree(former, ignore_errors=True)
        except OSError as error:
            raise StorageError(folder, f"the rows cannot be written: {error.strerror}") from error
        return sum(part.rows for part in parts)

    def append(self, name: str, frame: DataFrame, *, stream: str, batch_id: int) -> int | None:
        """See `Tables`."""
        assert STREAM.fullmatch(stream), f"{stream} names a folder"
        folder = self._root / name
        done = folder / f"{stream}-{batch_id:010d}"
        if done.is_dir():
            return None
        if self.has(name):
            _check_columns(folder, frame)
        attempt = folder / f".{done.name}"
        try:
            shutil.rmtree(attempt, ignore_errors=True)
            parts = write_parts(frame, attempt)
            if not self.has(name):
                _write_synced(folder / COLUMNS, frame.schema.json())
            _sync_folder(attempt)
            attempt.rename(done)
            _sync_folder(folder)
        except OSError as error:
            raise StorageError(folder, f"the rows cannot be written: {error.strerror}") from error
        return sum(part.rows for part in parts)

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """See `Tables`."""
        if not self.has(name):
            raise no_table(self._root, name)
        folder = self._root / name
        columns = StructType.fromJson(_columns(folder))
        files = [str(path) for path in sorted(folder.glob("[!._]*/*.parquet"))]
        return spark.read.schema(columns).parquet(*files) if files else spark.createDataFrame([], columns)


def _columns(folder: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((folder / COLUMNS).read_text())
    return found


def _check_columns(folder: Path, frame: DataFrame) -> None:
    have = StructType.fromJson(_columns(folder)).names
    if have != frame.columns:
        raise UsageError(
            f"{folder}: the table has the columns {', '.join(have)}, the rows have {', '.join(frame.columns)}"
        )


def _write_synced(path: Path, text: str) -> None:
    attempt = path.with_name(f".{path.name}")
    with attempt.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    attempt.rename(path)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

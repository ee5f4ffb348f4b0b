"""Converts the Parquet tables of earlier versions into Delta tables, without copying a row.

Such a table is a folder with ``_columns.json`` and a folder for each append, which has its Parquet files and
``_commit.json``. Invariant: an append is in the Delta table before its folder is removed, so a conversion that was
killed is repeated.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
from pyspark.sql.types import StructType

from pykraft.errors import StorageError
from pykraft.spark.tables.commit import Commit
from pykraft.spark.tables.delta import DeltaTables, column_types
from pykraft.spark.tables.names import PARQUET_COLUMNS, TABLES
from pykraft.spark.tables.parquet_writer import ParquetFile, statistics_json, sync_folder

COMMIT: Final = "_commit.json"


def convert_parquet_tables(tables: DeltaTables) -> None:
    """Convert the tables of a pipeline that are Parquet. Errors: StorageError."""
    for name in TABLES:
        if (tables.root / name / PARQUET_COLUMNS).is_file():
            try:
                _convert(tables, name)
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise StorageError(tables.root / name, f"the Parquet table cannot be converted: {error}") from error


def _convert(tables: DeltaTables, name: str) -> None:
    folder = tables.root / name
    columns = StructType.fromJson(json.loads((folder / PARQUET_COLUMNS).read_text()))
    appends = [(json.loads((path / COMMIT).read_text()), path) for path in folder.glob("[!._]*/")]
    for kept, path in sorted(appends, key=lambda each: each[0]["number"]):
        append = tables.begin(name, columns, Commit.from_json(kept["commit"]))
        if append is not None:  # a conversion that was killed has done the others
            append.finish([_linked(file, folder, columns) for file in sorted(path.glob("*.parquet"))])
    for left in [*folder.glob("[!._]*/"), *folder.glob(".*/")]:
        shutil.rmtree(left)
    (folder / PARQUET_COLUMNS).unlink()


def _linked(file: Path, folder: Path, columns: StructType) -> ParquetFile:
    target = folder / file.name
    if not target.exists():
        os.link(file, target)
        sync_folder(folder)
    footer, status = pq.read_metadata(file), file.stat()
    return ParquetFile(
        name=file.name,
        size_bytes=status.st_size,
        rows=footer.num_rows,
        modified_ms=status.st_mtime_ns // 1_000_000,
        statistics=statistics_json(footer, column_types(columns)),
    )

"""Upkeep of all Delta tables of a pipeline, by command or by the stream itself.

Invariant: Spark is not needed, and a stream may append meanwhile.

Source: `pykraft.spark.tables.delta_upkeep`; Delta's ``OPTIMIZE`` and ``VACUUM``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pykraft.errors import UsageError
from pykraft.object_storage.uris import UriPath
from pykraft.spark.tables import delta_upkeep
from pykraft.spark.tables.names import ALL_TABLES, BRONZE, PARQUET_COLUMNS, RETENTION_HOURS, TABLES, TARGET_SIZE_BYTES
from pykraft.spark.tables.table_folder import open_table, tables_at

VACUUM_INTERVAL: Final = 100
"""Compactions of a stream from one vacuum to the next, which lists all files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableUpkeep:
    """What was done for one table: its files before and after, the bytes that were rewritten, and deleted files."""

    files_before: int
    files: int
    rewritten_bytes: int
    deleted_files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineUpkeep:
    """What was done for each table."""

    tables: dict[str, TableUpkeep]


def keep_tables(
    root: Path,
    *,
    target_size_bytes: int = TARGET_SIZE_BYTES,
    retention_hours: int = RETENTION_HOURS,
    on_progress: Callable[[str, int], None] | None = None,
) -> PipelineUpkeep:
    """Compact and vacuum all tables in a folder, and write checkpoints of their logs.

    ``on_progress`` gets the table and the bytes that were rewritten so far.

    Errors: UsageError if there are no Delta tables; errors of `pykraft.spark.tables.delta_upkeep`.
    """
    root = tables_at(root)
    refuse_parquet(root)
    made = [name for name in ALL_TABLES if open_table(root / name) is not None]
    if not made:
        raise UsageError(f"{root}: there are no tables; pykraft pipeline run creates them")
    done = {}
    for name in made:
        folder = root / name

        def report(size_bytes: int, name: str = name) -> None:
            if on_progress is not None:
                on_progress(name, size_bytes)

        report(0)
        before = delta_upkeep.files_of(folder)
        rewritten_bytes = delta_upkeep.compact(folder, target_size_bytes=target_size_bytes, on_merged=report)
        deleted_files = delta_upkeep.vacuum(folder, retention_hours=retention_hours)
        delta_upkeep.shorten_log(folder)
        done[name] = TableUpkeep(
            files_before=before,
            files=delta_upkeep.files_of(folder),
            rewritten_bytes=rewritten_bytes,
            deleted_files=deleted_files,
        )
    return PipelineUpkeep(tables=done)


def keep_stream_tables(root: Path, batch_id: int, *, interval: int) -> None:
    """The share of a stream's upkeep that is due after this micro-batch; ``interval`` 0 is never.

    Errors: those of `pykraft.spark.tables.delta_upkeep`.
    """
    count = batch_id + 1
    if interval == 0 or count % interval:
        return
    for name in TABLES:
        delta_upkeep.compact(root / name, is_tiered=True)
        if count % (interval * VACUUM_INTERVAL) == 0:
            delta_upkeep.vacuum(root / name)


def refuse_parquet(root: Path) -> None:
    """Refuse Parquet tables of an earlier version, which were on disks only. Errors: UsageError."""
    if not isinstance(root, UriPath) and (root / BRONZE / PARQUET_COLUMNS).is_file():
        raise UsageError(f"{root}: these are Parquet tables of an earlier version; pykraft pipeline run converts them")

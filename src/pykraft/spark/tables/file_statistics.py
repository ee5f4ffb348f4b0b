"""Statistics of a Parquet file for Delta's add action: rows, nulls, and the least and greatest values of its columns.

With them a reader that looks for some offsets, epochs, times or replicas skips the other files without opening them.

Invariant: a bound that is told holds for each row of the file. Where the footer does not prove one, none is told: for
floating-point numbers (NaN), binary columns, nested columns and long texts.

Source: the Delta protocol (per-file statistics); Parquet's column chunk statistics.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from pyarrow.parquet import FileMetaData
from pyarrow.parquet import Statistics as ChunkStatistics

TEXT_SIZE_BYTES_MAX: Final = 64
"""A longer bound would cost more in every commit than it saves."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def statistics_json(metadata: FileMetaData, columns: pa.Schema) -> str:
    """The field ``stats`` of the add action of a file with this footer and these columns."""
    lowest: dict[str, int | str] = {}
    highest: dict[str, int | str] = {}
    null_count: dict[str, int] = {}
    flat = {field.name: field.type for field in columns if not pa.types.is_nested(field.type)}
    for name, chunks in _chunks(metadata).items():
        # Not `None in chunks`: pyarrow's statistics compared with None end the process.
        known = [chunk for chunk in chunks if chunk is not None]
        if name not in flat or len(known) < len(chunks):
            continue
        if all(chunk.has_null_count for chunk in known):
            null_count[name] = sum(chunk.null_count for chunk in known)
        # A chunk of nulls has no bounds, and takes none from the others.
        filled = [chunk for chunk in known if chunk.has_min_max or not _is_null(chunk)]
        if filled and all(chunk.has_min_max for chunk in filled):
            least = _told(min(chunk.min_raw for chunk in filled), flat[name])
            greatest = _told(max(chunk.max_raw for chunk in filled), flat[name])
            if least is not None and greatest is not None:
                lowest[name], highest[name] = least, greatest
    found = {"numRecords": metadata.num_rows, "minValues": lowest, "maxValues": highest, "nullCount": null_count}
    return json.dumps(found)


def _chunks(metadata: FileMetaData) -> dict[str, list[ChunkStatistics | None]]:
    """The statistics of each column's chunks, by the column's path."""
    found: dict[str, list[ChunkStatistics | None]] = {}
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for place in range(row_group.num_columns):
            column = row_group.column(place)
            found.setdefault(column.path_in_schema, []).append(column.statistics)
    return found


def _is_null(chunk: ChunkStatistics) -> bool:
    """Whether all its values are null."""
    return bool(chunk.has_null_count and chunk.num_values == 0)


def _told(raw: Any, kind: pa.DataType) -> int | str | None:  # noqa: ANN401 - Parquet's physical value
    """A bound in Delta's JSON; None for a type that has none here."""
    if pa.types.is_integer(kind):
        return int(raw)
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        when = _EPOCH + timedelta(microseconds=raw)
        zone = "Z" if kind.tz is not None else ""
        return f"{when.replace(tzinfo=None).isoformat(timespec='microseconds')}{zone}"
    if pa.types.is_string(kind) and len(raw) <= TEXT_SIZE_BYTES_MAX:
        return bytes(raw).decode()
    return None

"""What differs between a cluster's tables at two moments, row by row.

Rows are compared by their keys, without the columns that tell when a row changed. Invariant: a difference names each
row at most once, as added, removed or changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from pykraft.spark.metadata.image import MetadataImage
from pykraft.spark.metadata.tables import COLUMNS, KEYS, TableRow, rows_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A row that is not the same; ``before`` and ``after`` have the columns that differ."""

    table: str
    change: Literal["added", "removed", "changed"]
    key: TableRow
    before: TableRow | None
    after: TableRow | None

    def as_json(self) -> dict[str, Any]:
        """An object of its fields."""
        return asdict(self)


def differences(before: MetadataImage, after: MetadataImage) -> Iterator[Difference]:
    """The rows that differ, table by table, in the order of their keys."""
    for table in COLUMNS:
        old, new = _by_key(before, table), _by_key(after, table)
        for key in [*old, *(key for key in new if key not in old)]:
            found = _compared(table, old.get(key), new.get(key))
            if found is not None:
                yield found


def _by_key(image: MetadataImage, table: str) -> dict[str, TableRow]:
    rows = ({column: row[column] for column in COLUMNS[table]} for row in rows_of(image, table))
    return {repr([row[column] for column in KEYS[table]]): row for row in rows}


def _compared(table: str, old: TableRow | None, new: TableRow | None) -> Difference | None:
    there = new if old is None else old
    assert there is not None
    key = {column: there[column] for column in KEYS[table]}
    if old is None or new is None:
        change: Literal["added", "removed"] = "added" if old is None else "removed"
        return Difference(table=table, change=change, key=key, before=old, after=new)
    other = [column for column in COLUMNS[table] if old[column] != new[column]]
    if not other:
        return None
    before, after = ({column: row[column] for column in other} for row in (old, new))
    return Difference(table=table, change="changed", key=key, before=before, after=after)

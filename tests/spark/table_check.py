"""Checks without Spark that the four tables of a pipeline agree, and hold every acknowledged record once and in order.

It reads Delta tables with ``deltalake`` and Parquet tables with pyarrow. Pyarrow takes every file that is not hidden,
so the program that wrote them cannot hide its own faults.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from deltalake import DeltaTable
from pyarrow import ArrowInvalid
from pyarrow.dataset import dataset

from pykraft.local.journal import Acknowledged
from pykraft.spark.tables.names import BRONZE, CONTROL, PAYLOADS, RECORDS


def rows_of(root: Path, table: str, *columns: str) -> dict[str, Any]:
    """These columns as arrays, in the order of the first of them."""
    is_delta = DeltaTable.is_deltatable(str(root / table))
    source = DeltaTable(root / table).to_pyarrow_dataset() if is_delta else dataset(root / table, format="parquet")
    found = source.to_table(columns=list(columns)).sort_by(columns[0])
    return {name: found.column(name).to_numpy() for name in columns}


def end_offset(root: Path) -> int:
    """The offset behind the last record of the last tables, if they are sound: no row is read. 0 while there is none.

    Each record is in one of the two.
    """
    control, payloads = (_count(root / table) for table in (CONTROL, PAYLOADS))
    return 0 if control is None or payloads is None else control + payloads


def _count(table: Path) -> int | None:
    """Rows of a table, or None before it is made."""
    if DeltaTable.is_deltatable(str(table)):
        return int(DeltaTable(table).count())
    if not table.is_dir():
        return None
    try:
        return int(dataset(table, format="parquet").count_rows())
    except (FileNotFoundError, ArrowInvalid):
        # A folder was renamed while it was looked at, or the first file of a table is being written.
        return None


def problems_of(root: Path, acknowledged: Sequence[Acknowledged]) -> list[str]:
    """What is wrong, in words; nothing when all is right."""
    return [*_gaps(root), *_lost(root, acknowledged)]


def _gaps(root: Path) -> Iterator[str]:
    """Every offset once in records, made of bronze's batches, and either in control or in payloads."""
    bronze = rows_of(root, BRONZE, "base_offset", "last_offset", "records_count")
    ends = bronze["last_offset"] + 1
    begins = np.concatenate([[0], ends[:-1]])
    if not np.array_equal(bronze["base_offset"], begins):
        yield f"{BRONZE}: batches do not follow each other: {_first(bronze['base_offset'] != begins, begins)}"
    if bronze["records_count"].sum() != ends[-1]:
        yield f"{BRONZE}: {bronze['records_count'].sum()} records end at offset {ends[-1]}"
    records = rows_of(root, RECORDS, "offset", "is_control")
    every = np.arange(ends[-1])
    if not np.array_equal(records["offset"], every):
        yield f"{RECORDS}: {len(records['offset'])} rows for {len(every)} offsets"
    is_control = records["is_control"].astype(bool)
    for table, wanted in ((CONTROL, records["offset"][is_control]), (PAYLOADS, records["offset"][~is_control])):
        found = rows_of(root, table, "offset")["offset"]
        if not np.array_equal(found, wanted):
            yield f"{table}: {len(found)} rows, and {len(wanted)} such records"


def _lost(root: Path, acknowledged: Iterable[Acknowledged]) -> Iterator[str]:
    """Each acknowledged record stands at its offset, and sequences of a claim only grow."""
    rows = rows_of(root, PAYLOADS, "offset", "run", "claim_epoch", "sequence")
    offsets, claims = rows["offset"], list(zip(rows["run"], rows["claim_epoch"], strict=True))
    last: dict[tuple[str, int], int] = {}
    for offset, claim, sequence in zip(offsets, claims, rows["sequence"], strict=True):
        if sequence <= last.get(claim, -1):
            yield f"{PAYLOADS}: at offset {offset} sequence {sequence} follows {last[claim]}"
        last[claim] = sequence
    for said in acknowledged:
        at = np.searchsorted(offsets, said.base_offset)
        found = slice(at, at + said.count)
        places = np.arange(said.count)
        is_right = (
            np.array_equal(offsets[found], said.base_offset + places)
            and np.array_equal(rows["sequence"][found], said.first_sequence + places)
            and set(claims[found]) == {(said.run.hex(), said.epoch)}
        )
        if not is_right:
            yield f"{PAYLOADS}: {said.count} records acknowledged at offset {said.base_offset} are not all there"


def _first(is_wrong: Any, wanted: Any) -> str:
    at = int(np.argmax(is_wrong))
    return f"row {at} should begin at {wanted[at]}"

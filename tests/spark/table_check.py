"""Checks without Spark that the three tables of a pipeline agree, and hold every acknowledged record once and in order.

Of several replicas each has rows of its own; a check is of one of them.

It reads the tables with ``deltalake`` alone, so the program that wrote them cannot hide its own faults.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from deltalake import DeltaTable

from pykraft.local.journal import Acknowledged
from pykraft.server.workload import RECORD_HEAD
from pykraft.spark.data_source.file_plan import find_replicas
from pykraft.spark.tables.delta import DeltaTables
from pykraft.spark.tables.names import BRONZE, CONTROL, RECORDS, TABLES


def rows_of(root: Path, table: str, *columns: str, replica: str | None = None) -> dict[str, Any]:
    """These columns as arrays, in the order of the first of them; of all replicas, or of one."""
    chosen = None if replica is None else pc.field("replica") == replica
    whole = DeltaTable(root / table).to_pyarrow_dataset()
    found = whole.to_table(columns=list(columns), filter=chosen).sort_by(columns[0])
    return {name: found.column(name).to_numpy() for name in columns}


def end_offset(root: Path, partition: Path | None = None) -> int:
    """Where the newest commit of the last table ends, of the quorum or of this directory; 0 while there is none."""
    newest = DeltaTables(root).newest(TABLES[-1])
    if newest is None:
        return 0
    if partition is None:
        return int(newest.end["offset"])
    [replica] = find_replicas([str(partition)])
    return int(newest.end["replicas"].get(replica.id or str(partition), {"offset": 0})["offset"])


def replicas_of(root: Path) -> set[str]:
    """The names of the replicas that have rows."""
    return set(rows_of(root, RECORDS, "replica")["replica"])


def problems_of(root: Path, acknowledged: Sequence[Acknowledged], replica: str | None = None) -> list[str]:
    """What is wrong, in words; nothing when all is right."""
    return [*_gaps(root, replica), *_lost(root, acknowledged, replica)]


def _gaps(root: Path, replica: str | None) -> Iterator[str]:
    """Every offset once in records, made of bronze's batches; those of control records also in control."""
    bronze = rows_of(root, BRONZE, "base_offset", "last_offset", "records_count", replica=replica)
    ends = bronze["last_offset"] + 1
    begins = np.concatenate([[0], ends[:-1]])
    if not np.array_equal(bronze["base_offset"], begins):
        yield f"{BRONZE}: batches do not follow each other: {_first(bronze['base_offset'] != begins, begins)}"
    if bronze["records_count"].sum() != ends[-1]:
        yield f"{BRONZE}: {bronze['records_count'].sum()} records end at offset {ends[-1]}"
    records = rows_of(root, RECORDS, "offset", "is_control", replica=replica)
    every = np.arange(ends[-1])
    if not np.array_equal(records["offset"], every):
        yield f"{RECORDS}: {len(records['offset'])} rows for {len(every)} offsets"
    found = rows_of(root, CONTROL, "offset", replica=replica)["offset"]
    wanted = records["offset"][records["is_control"].astype(bool)]
    if not np.array_equal(found, wanted):
        yield f"{CONTROL}: {len(found)} rows, and {len(wanted)} such records"


def _lost(root: Path, acknowledged: Iterable[Acknowledged], replica: str | None) -> Iterator[str]:
    """Each acknowledged record stands at its offset, and sequences of a claim only grow."""
    rows = rows_of(root, RECORDS, "offset", "is_control", "value", replica=replica)
    is_data = ~rows["is_control"].astype(bool)
    offsets = rows["offset"][is_data]
    heads = [RECORD_HEAD.unpack_from(value) for value in rows["value"][is_data]]
    claims, sequences = [head[:2] for head in heads], np.array([head[2] for head in heads])
    last: dict[tuple[bytes, int], int] = {}
    for offset, claim, sequence in zip(offsets, claims, sequences, strict=True):
        if sequence <= last.get(claim, -1):
            yield f"{RECORDS}: at offset {offset} sequence {sequence} follows {last[claim]}"
        last[claim] = sequence
    for said in acknowledged:
        at = np.searchsorted(offsets, said.base_offset)
        found = slice(at, at + said.count)
        places = np.arange(said.count)
        is_right = (
            np.array_equal(offsets[found], said.base_offset + places)
            and np.array_equal(sequences[found], said.first_sequence + places)
            and set(claims[found]) == {(said.run, said.epoch)}
        )
        if not is_right:
            yield f"{RECORDS}: {said.count} records acknowledged at offset {said.base_offset} are not all there"


def _first(is_wrong: Any, wanted: Any) -> str:
    at = int(np.argmax(is_wrong))
    return f"row {at} should begin at {wanted[at]}"

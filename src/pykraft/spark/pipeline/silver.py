"""Silver: the records of the batches, the control records told, the workload's records unpacked.

| table | what | columns |
|---|---|---|
| records | every record | those of the source's ``records`` (`pykraft.spark.data_source.schema`) |
| control | what the quorum wrote itself | see `CONTROL` |
| payloads | the workload's records | see `PAYLOADS` |

Each table is a function from DataFrame to DataFrame, and one from Arrow rows to Arrow rows that tasks call.

Invariant: a record is there once for each bronze row of its batch, with the batch's place. Decoding is the source's
own, in bulk.

Source: KIP-98 (record batches), KIP-595, KIP-853 (control records).
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.lib.stride_tricks import sliding_window_view
from pyspark.sql import DataFrame

from pykraft.errors import ProtocolError
from pykraft.local.journal import RUN_SIZE_BYTES
from pykraft.protocol.control import read_control_body
from pykraft.spark.arrow_columns import (
    array_column,
    byte_cells,
    even_text_column,
    filled_cells,
    list_column,
    number_column,
    text_column,
    true_cells,
)
from pykraft.spark.data_source.decode import records_of
from pykraft.spark.data_source.row_location import DamagedBytes, damage_row
from pykraft.spark.data_source.schema import RECORDS, arrow_schema, columns_of
from pykraft.spark.data_source.splits import Split
from pykraft.types import Offset

CONTROL = columns_of(
    "replica string, offset bigint not null, epoch int, timestamp timestamp, control_type string, leader_id int, "
    "voters array<int>, granting_voters array<int>, body string"
)
"""Leader and voters are those of a LeaderChange; ``body`` is the value as JSON, Kafka's names in snake case."""
CONTROL_FROM = ["replica", "offset", "epoch", "timestamp", "is_control", "control_type", "key", "value"]
PAYLOADS = columns_of(
    "replica string, offset bigint not null, epoch int, timestamp timestamp, run string, claim_epoch int, "
    "sequence bigint, size_bytes int"
)
"""``run`` in hex; ``size_bytes`` of the value."""
HEAD_SIZE_BYTES = 20
PAYLOADS_FROM = ["replica", "offset", "epoch", "timestamp", "is_control", "value"]
HEX = np.frombuffer(b"0123456789abcdef", dtype=np.uint8)
NO_HEADS = np.empty((0, HEAD_SIZE_BYTES), dtype=np.uint8)
PLACED = ("replica", "segment", "position", "batch_size", "base_offset", "content", "corrupt")
SILVER_SIZE_BYTES_MAX = 8 * 1024 * 1024
"""About how many bytes of batches are decoded at a time."""


def records(bronze: DataFrame) -> DataFrame:
    """The records of the batches. In: the source's ``batches``. Out: the source's ``records``.

    A batch that is marked corrupt becomes a marked row.
    """
    return bronze.select(*PLACED).mapInArrow(_decode, RECORDS)


def _decode(groups: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for group in groups:
        yield from records_in(group)


def records_in(batches: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """As `records`, within a task."""
    for rows in _runs(batches):
        yield from _decode_run(batches.slice(rows.start, len(rows)))


def _runs(group: pa.RecordBatch) -> Iterator[range]:
    """Consecutive valid rows of one segment, or a single damaged row."""
    replicas, segments = group.column("replica").to_pylist(), group.column("segment").to_pylist()
    positions, sizes = group.column("position").to_pylist(), group.column("batch_size").to_pylist()
    problems = group.column("corrupt").to_pylist()
    begin, size_bytes = 0, 0
    for row in range(group.num_rows):
        goes_on = (
            row > begin
            and problems[row] is None
            and problems[row - 1] is None
            and size_bytes + sizes[row] <= SILVER_SIZE_BYTES_MAX
            and (replicas[row], segments[row]) == (replicas[row - 1], segments[row - 1])
            and (positions[row] is None or positions[row] == positions[row - 1] + sizes[row - 1])
        )
        if row > begin and not goes_on:
            yield range(begin, row)
            begin, size_bytes = row, 0
        size_bytes += sizes[row]
    if group.num_rows:
        yield range(begin, group.num_rows)


def _decode_run(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    first = {name: rows.column(name)[0].as_py() for name in PLACED if name != "content"}
    position = first["position"] or 0
    split = Split(
        replica=first["replica"],
        path=first["segment"] or "",
        position=position,
        end_position=position + sum(rows.column("batch_size").to_pylist()),
    )
    if first["corrupt"] is not None:
        offset = Offset(first["base_offset"])
        damage = DamagedBytes(position=0, size_bytes=first["batch_size"], offset=offset, text=first["corrupt"])
        yield damage_row(split, damage, arrow_schema("records"))
    else:
        yield from records_of(split, b"".join(rows.column("content").to_pylist()), tolerant=True)


def control(silver_records: DataFrame) -> DataFrame:
    """The quorum's own records. In: `records`. Out: `CONTROL`."""
    return silver_records.where("is_control").select(*CONTROL_FROM).mapInArrow(_tell_control, CONTROL)


def _tell_control(groups: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from map(control_in, groups)


def control_in(records: pa.RecordBatch) -> pa.RecordBatch:
    """As `control`, within a task."""
    found = records.select(CONTROL_FROM).filter(array_column(true_cells(records.column("is_control")), pa.bool_()))
    bodies = [_body(row["key"], row["value"]) for row in found.select(["key", "value"]).to_pylist()]
    kept = [found.column(name) for name in ("replica", "offset", "epoch", "timestamp", "control_type")]
    told = [
        number_column([_leader_id(body) for body in bodies], pa.int32()),
        list_column([_voter_ids(body, "voters") for body in bodies]),
        list_column([_voter_ids(body, "granting_voters") for body in bodies]),
        text_column([json.dumps(body, default=bytes.hex, sort_keys=True) for body in bodies]),
    ]
    return pa.RecordBatch.from_arrays([*kept, *told], CONTROL.names)


def _body(key: bytes | None, value: bytes | None) -> dict[str, object]:
    """The fields of a control record's value; for an unreadable one, the problem."""
    try:
        return dict(read_control_body(key, value)[1])
    except ProtocolError as error:
        return {"problem": str(error)}


def _leader_id(body: dict[str, object]) -> int | None:
    """The leader that a LeaderChange names."""
    leader_id = body.get("leader_id")
    return leader_id if isinstance(leader_id, int) else None


def _voter_ids(body: dict[str, object], name: str) -> list[int] | None:
    """The ids in one of the lists of a LeaderChange."""
    voters = body.get(name)
    if "leader_id" not in body or not isinstance(voters, list):
        return None
    return [int(voter["voter_id"]) for voter in voters]


def payloads(silver_records: DataFrame) -> DataFrame:
    """The workload's records. In: `records`. Out: `PAYLOADS`."""
    return silver_records.select(*PAYLOADS_FROM).mapInArrow(_unpack, PAYLOADS)


def _unpack(groups: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from map(payloads_in, groups)


def payloads_in(records: pa.RecordBatch) -> pa.RecordBatch:
    """As `payloads`, within a task. The local load generator wrote them."""
    is_control, values = records.column("is_control"), records.column("value")
    data, begins, ends = byte_cells(values)
    is_data = filled_cells(is_control) & ~true_cells(is_control) & filled_cells(values)
    rows = np.flatnonzero(is_data & (ends - begins >= HEAD_SIZE_BYTES))
    heads = sliding_window_view(data, HEAD_SIZE_BYTES)[begins[rows]] if len(rows) else NO_HEADS
    claim_epochs, sequences = _unsigned(heads[:, 8:12]), _unsigned(heads[:, 12:])
    is_own = heads[:, :RUN_SIZE_BYTES].any(axis=1) & (claim_epochs < 1 << 31) & (sequences < 1 << 63)
    rows, runs = rows[is_own], heads[is_own, :RUN_SIZE_BYTES]
    is_kept = np.zeros(records.num_rows, dtype=bool)
    is_kept[rows] = True
    kept = records.select(["replica", "offset", "epoch", "timestamp"]).filter(array_column(is_kept, pa.bool_()))
    told = [
        even_text_column(HEX[np.stack([runs >> 4, runs & 15], axis=2)].reshape(len(rows), 2 * RUN_SIZE_BYTES)),
        array_column(claim_epochs[is_own].astype(np.int32), pa.int32()),
        array_column(sequences[is_own].astype(np.int64), pa.int64()),
        array_column((ends - begins)[rows].astype(np.int32), pa.int32()),
    ]
    return pa.RecordBatch.from_arrays([*kept.columns, *told], PAYLOADS.names)


def _unsigned(cells: np.ndarray) -> np.ndarray:
    """Numbers, big-endian, of a row of bytes each."""
    return np.ascontiguousarray(cells).view(f">u{cells.shape[1]}")[:, 0].astype(np.uint64)

"""Makes the rows of a micro-batch, and writes the files of all tables in one pass over its record batches.

Bronze ``batches`` are the batches as they are (columns: `pykraft.spark.data_source.selection`), silver ``records``
every record, silver ``control`` what the quorum wrote itself (`CONTROL_COLUMNS`). A task decodes its batches once and
writes a file for each table; no row goes back to the JVM.

Invariant: a record is there once for each bronze row of its batch, with the batch's place. Only files of successful
task attempts are reported.

Source: KIP-98 (record batches), KIP-595, KIP-853 (control records).
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from pykraft.errors import ProtocolError
from pykraft.protocol.control import read_control_body
from pykraft.spark.arrow_columns import array_column, list_column, number_column, text_column, true_cells
from pykraft.spark.data_source.decode import DamagedBytes, damage_row, records_of
from pykraft.spark.data_source.selection import BATCHES, arrow_schema, columns_of
from pykraft.spark.data_source.selection import RECORDS as RECORD_COLUMNS
from pykraft.spark.data_source.splits import Origin
from pykraft.spark.tables.commit import ParquetFile, ParquetOutput
from pykraft.spark.tables.delta import FILE_COLUMNS, FILE_NAMES, column_types, file_columns
from pykraft.spark.tables.names import BRONZE, CONTROL, RECORDS
from pykraft.types import Offset

CONTROL_COLUMNS = columns_of(
    "replica string, offset bigint not null, epoch int, timestamp timestamp, control_type string, leader_id int, "
    "voters array<int>, granting_voters array<int>, body string"
)
"""Leader and voters are those of a LeaderChange; ``body`` is the value as JSON, Kafka's names in snake case."""
CONTROL_FROM = ["replica", "offset", "epoch", "timestamp", "is_control", "control_type", "key", "value"]
PLACED = ("replica", "segment", "position", "batch_size", "base_offset", "content", "corrupt")
SILVER_SIZE_BYTES_MAX = 8 * 1024 * 1024
"""About how many bytes of batches are decoded at a time."""


TABLE_COLUMNS: Final[Mapping[str, StructType]] = {BRONZE: BATCHES, RECORDS: RECORD_COLUMNS, CONTROL: CONTROL_COLUMNS}
"""The columns of each table, in the order in which tables are committed."""
ROW_GROUP_SIZE_BYTES: Final = 8 * 1024 * 1024
"""Rows in memory, about, that become one row group; a compressed batch alone may be small."""


def records_in(batches: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The records of these batches. In: the source's ``batches``. Out: the source's ``records``.

    A batch that is marked corrupt becomes a marked row.
    """
    for rows in _runs(batches):
        yield from _decode_run(batches.slice(rows.start, len(rows)))


def _runs(group: pa.RecordBatch) -> Iterator[range]:
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
    origin = Origin(replica=first["replica"], path=first["segment"] or "", position=first["position"] or 0)
    if first["corrupt"] is not None:
        offset = Offset(first["base_offset"])
        damage = DamagedBytes(position=0, size_bytes=first["batch_size"], offset=offset, text=first["corrupt"])
        yield damage_row(origin, damage, arrow_schema("records"))
    else:
        # The source has compared the CRC of each batch that is not marked.
        yield from records_of(origin, b"".join(rows.column("content").to_pylist()), tolerant=True, are_checked=True)


def control_in(records: pa.RecordBatch) -> pa.RecordBatch:
    """The quorum's own records among these. In: the source's ``records``. Out: `CONTROL_COLUMNS`."""
    found = records.select(CONTROL_FROM).filter(array_column(true_cells(records.column("is_control")), pa.bool_()))
    bodies = [_body(row["key"], row["value"]) for row in found.select(["key", "value"]).to_pylist()]
    kept = [found.column(name) for name in ("replica", "offset", "epoch", "timestamp", "control_type")]
    told = [
        number_column([_leader_id(body) for body in bodies], pa.int32()),
        list_column([_voter_ids(body, "voters") for body in bodies]),
        list_column([_voter_ids(body, "granting_voters") for body in bodies]),
        text_column([json.dumps(body, default=bytes.hex, sort_keys=True) for body in bodies]),
    ]
    return pa.RecordBatch.from_arrays([*kept, *told], CONTROL_COLUMNS.names)


def _body(key: bytes | None, value: bytes | None) -> dict[str, object]:
    """The fields of a control record's value; for an unreadable one, the problem."""
    try:
        return dict(read_control_body(key, value)[1])
    except ProtocolError as error:
        return {"problem": str(error)}


def _leader_id(body: dict[str, object]) -> int | None:
    leader_id = body.get("leader_id")
    return leader_id if isinstance(leader_id, int) else None


def _voter_ids(body: dict[str, object], name: str) -> list[int] | None:
    voters = body.get(name)
    if "leader_id" not in body or not isinstance(voters, list):
        return None
    return [int(voter["voter_id"]) for voter in voters]


def write_files(bronze: DataFrame, folders: Mapping[str, Path]) -> dict[str, list[ParquetFile]]:
    """Write the rows of these batches into a folder for each table that is named; returns the files of each.

    In: the source's ``batches``. Memory of a task: the group of rows that it gets, what it decodes of about
    `ROW_GROUP_SIZE_BYTES` of them, and as much for each table.

    Errors: errors of the tasks, as Spark raises them.
    """
    kinds = {name: column_types(TABLE_COLUMNS[name]) for name in folders}

    def write(groups: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with ExitStack() as stack:
            outputs = {
                name: stack.enter_context(ParquetOutput(folder, kinds[name], group_size_bytes_min=ROW_GROUP_SIZE_BYTES))
                for name, folder in folders.items()
            }
            for group in chain.from_iterable(_pieces(group, ROW_GROUP_SIZE_BYTES) for group in groups):
                for name, rows in _rows(group, with_silver=bool(outputs.keys() - {BRONZE})):
                    if name in outputs:
                        outputs[name].write(rows)
            made = {name: output.finish() for name, output in outputs.items()}
        for name, file in made.items():
            if file is not None:
                yield pa.RecordBatch.from_arrays([text_column([name]), *file_columns(file)], ["table", *FILE_NAMES])

    found: dict[str, list[ParquetFile]] = {name: [] for name in folders}
    for row in bronze.mapInArrow(write, f"table string, {FILE_COLUMNS}").collect():
        told = row.asDict()
        found[told.pop("table")].append(ParquetFile(**told))
    return found


def _pieces(group: pa.RecordBatch, size_bytes: int) -> Iterator[pa.RecordBatch]:
    """Spark's groups have up to 10,000 batches; as one row group they would be in memory several times."""
    step = max(1, group.num_rows * size_bytes // max(1, group.nbytes))
    for first in range(0, group.num_rows, step):
        yield group.slice(first, step)


def _rows(batches: pa.RecordBatch, *, with_silver: bool) -> Iterator[tuple[str, pa.RecordBatch]]:
    yield BRONZE, batches
    if with_silver:
        for records in records_in(batches):
            yield RECORDS, records
            yield CONTROL, control_in(records)

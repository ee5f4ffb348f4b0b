"""Arrow rows contain what the protocol's own decoder reads, record by record; damage has its position."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from pykraft.errors import CorruptionError, StorageError, UsageError
from pykraft.protocol.batch import HEADER_SIZE_BYTES, crc_of, read_header
from pykraft.protocol.records import decode_control, decode_records, encode_control_batch, scan
from pykraft.spark.data_source import decode
from pykraft.spark.data_source.decode import (
    INT32_MAX,
    METADATA_COLUMNS,
    TIMESTAMP_MS_MAX,
    TIMESTAMP_MS_MIN,
    DamagedBytes,
    SplitPartition,
    batches_of,
    constant,
    damage_row,
    location_columns,
    metadata_columns,
    read_split,
    records_of,
    sound_batches,
)
from pykraft.spark.data_source.options import parse_options
from pykraft.spark.data_source.selection import (
    HEADERS,
    KAFKA,
    RECORDS,
    Selection,
    arrow_of,
    arrow_schema,
    columns_for,
    select,
)
from pykraft.spark.data_source.splits import Bounds, Limit, Split, plan_splits, read_chunks
from pykraft.spark.data_source.walk import ReplicaLog
from pykraft.spark.source import LogReader
from pykraft.types import Buffer, Epoch, KRaftVersion, Offset
from tests.cli.test_dump import sections
from tests.host.clients.test_accepted_everywhere import DRAWN, Drawn, accepted
from tests.protocol.metadata.records import ALL, encoded, full_body
from tests.spark.logs import EPOCH, START_MS, batch, three_batches, write_segment
from tests.spark.metadata.made import GOLDEN as QUORUMS

pytestmark = pytest.mark.spark

TESTS = Path(__file__).parents[2]
STATIC_LOG = TESTS / "golden" / "static" / "disk" / "n1" / "data" / "__cluster_metadata-0" / "00000000000000000000.log"
GOLDEN = sorted(path for path in (TESTS / "golden").rglob("*.log") if path.stem.isdigit())
OTHERS = sorted((TESTS / "protocol" / "batches").glob("*.bin"))
EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)


def rows(split: Split, data: Buffer) -> list[dict[str, Any]]:
    """All rows as dicts."""
    found: list[dict[str, Any]] = []
    schema = arrow_of(StructType([*RECORDS, *HEADERS]))
    for group in records_of(split, data, selection=Selection(schema=schema)):
        assert group.schema.equals(schema, check_metadata=True)
        group.validate(full=True)
        found += group.to_pylist()
    return found


def expected(split: Split, data: Buffer) -> Iterator[dict[str, Any]]:
    """The same by the protocol's decoders."""
    for position, header in scan(data):
        body = data[position : position + header.size_bytes]
        kinds = [type(one).__name__ for one in decode_control(body)] if header.is_control else []
        for index, record in enumerate(decode_records(body)):
            yield {
                "replica": split.replica,
                "segment": Path(split.path).name,
                "position": split.position + position,
                "batch_size": header.size_bytes,
                "offset": record.offset,
                "epoch": header.epoch,
                "timestamp": EPOCH_START + timedelta(milliseconds=record.timestamp_ms),
                "is_control": header.is_control,
                "control_type": kinds[index] if kinds else None,
                "key": record.key,
                "headers": [{"key": name, "value": value} for name, value in record.headers] or None,
                "corrupt": None,
                "value": record.value,
            }


@pytest.mark.parametrize("segment", GOLDEN, ids=[str(path.relative_to(TESTS / "golden")) for path in GOLDEN])
def test_logs_that_kafka_wrote_are_read_field_by_field(segment: Path) -> None:
    replica = ReplicaLog("n1", segment.parent, [segment])
    start = replica.start()
    plan = plan_splits("n1", start, replica.walk(start), start_offset=start.offset, limit=Limit())
    for split in plan.splits:
        for part in read_chunks(split, size_bytes=1_000):
            assert rows(part.split, part.data) == list(expected(part.split, part.data))


@pytest.mark.parametrize("path", OTHERS, ids=[path.stem for path in OTHERS])
def test_batches_of_another_client_keep_keys_times_and_offsets(path: Path) -> None:
    data = path.read_bytes()
    found = rows(split_of(data), data)
    assert found == list(expected(split_of(data), data))
    assert len({row["timestamp"] for row in found}) > 1
    assert {row["key"] is None for row in found} == {True, False}


def mixed() -> bytes:
    """Data of several sizes, of one size, control, another client's, compressed, data again."""
    control = encode_control_batch(
        [KRaftVersion(level=1)], base_offset=Offset(9), epoch=Epoch(EPOCH), timestamp_ms=START_MS
    ).data
    alike = [batch([b"%4d" % place for place in range(80)], base_offset=base) for base in (10, 300)]
    others = [(TESTS / "protocol" / "batches" / name).read_bytes() for name in ("none.bin", "zstd.bin")]
    return b"".join([batch([b"x", b"yy"], base_offset=7), alike[0], control, others[0], alike[1], others[1], alike[0]])


@pytest.mark.parametrize("rows_max", [1, 3, 200, 1_000])
def test_kinds_mix_in_row_groups_of_any_size(rows_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "ROWS_MAX", rows_max)
    data = mixed()
    split = split_of(data, position=1_000)
    assert rows(split, data) == list(expected(split, data))
    sizes = [group.num_rows for group in records_of(split, data)]
    assert all(size <= max(rows_max, 80) for size in sizes)
    assert sizes[-2:] == [40, 80], "a compressed batch is a group of its own"
    assert (len(sizes) > 3) == (rows_max < 203)


def test_a_row_group_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = three_batches()
    monkeypatch.setattr(decode, "BATCHES_SIZE_BYTES_MAX", 2 * len(batches[0]))
    data = b"".join(batches)
    assert [group.num_rows for group in records_of(split_of(data), data)] == [4, 2]


def test_nothing_gives_no_row_group() -> None:
    assert list(records_of(split_of(b""), b"")) == []


def sealed(data: bytes) -> bytes:
    """The same batch with the CRC that it now needs."""
    return data[:17] + crc_of(data, 0, read_header(data)).to_bytes(4, "big") + data[21:]


def test_a_batch_without_records_has_no_row() -> None:
    """A cleaner leaves such headers behind."""
    empty = batch([b"x"], base_offset=5)[:HEADER_SIZE_BYTES]
    empty = sealed(empty[:8] + (HEADER_SIZE_BYTES - 12).to_bytes(4, "big") + empty[12:57] + bytes(4))
    data = three_batches()[0] + empty
    assert len(rows(split_of(data), data)) == 2
    assert rows(split_of(empty), empty) == []


def test_a_count_is_not_believed_before_the_records_are_there() -> None:
    data = (TESTS / "protocol" / "batches" / "gzip.bin").read_bytes()
    most = (2**31 - 1).to_bytes(4, "big")
    bomb = sealed(data[:23] + (2**31 - 2).to_bytes(4, "big") + data[27:57] + most + data[61:])
    with pytest.raises(CorruptionError, match="2,147,483,647 records in"):
        list(records_of(split_of(bomb), bomb))


@pytest.mark.parametrize("time_ms", [2**62, -(2**62), TIMESTAMP_MS_MAX + 1, TIMESTAMP_MS_MIN - 1])
def test_a_time_that_spark_does_not_know_is_null(time_ms: int) -> None:
    first, second, third = three_batches()
    far = sealed(second[:27] + time_ms.to_bytes(8, "big", signed=True) * 2 + second[43:])
    known, found = (rows(split_of(data), data) for data in (first + second + third, first + far + third))
    changed = [now["offset"] for before, now in zip(known, found, strict=True) if before != now]
    assert changed == [2, 3]
    assert [row["timestamp"] for row in found if row["offset"] in changed] == [None, None]
    assert [row["max_timestamp"] for row in batch_rows(split_of(far), far)] == [None]


@given(DRAWN, DRAWN)
@settings(max_examples=30, deadline=None)
def test_whatever_a_listener_accepts_is_read(first: Drawn, second: Drawn) -> None:
    data = bytes(accepted(first)) + bytes(accepted(second, at=len(first.rows)))
    found = rows(split_of(data), data)
    assert [(row["offset"], row["key"], row["value"]) for row in found] == [
        (index, *row[1:3]) for index, row in enumerate([*first.rows, *second.rows])
    ]


def test_a_control_record_of_a_newer_kafka_is_named_by_its_number() -> None:
    control = encode_control_batch(
        [KRaftVersion(level=1)], base_offset=Offset(0), epoch=Epoch(EPOCH), timestamp_ms=START_MS
    ).data
    newer = sealed(control.replace(b"\x00\x00\x00\x05", b"\x00\x00\x00\x09"))
    assert [row["control_type"] for row in rows(split_of(newer), newer)] == ["type 9"]


def test_a_cut_batch_at_the_end_of_a_split_is_an_error() -> None:
    first, second, _ = three_batches()
    data = first + second[:-1]
    with pytest.raises(CorruptionError, match="a valid batch") as caught:
        list(records_of(split_of(data), data))
    assert caught.value.position == len(first)


def test_malformed_records_under_a_right_crc_are_an_error_with_their_place() -> None:
    first, second, third = three_batches()
    data = first + sealed(second[:-1] + b"\x02") + third
    with pytest.raises(CorruptionError, match="expected a valid batch") as caught:
        list(records_of(split_of(data), data))
    assert caught.value.position == len(first)


@pytest.mark.parametrize("at", [16, 30, -1], ids=["magic", "header", "value"])
def test_a_flipped_byte_names_file_and_position(at: int, tmp_path: Path) -> None:
    first, second, third = three_batches()
    damaged = bytearray(second)
    damaged[at] ^= 1
    segment = write_segment(tmp_path, first + damaged + third)
    whole = first + damaged + third
    split = Split(replica="n1", path=str(segment), position=0, end_position=len(whole))
    with pytest.raises(CorruptionError, match="expected a valid batch") as caught:
        list(records_of(split, whole))
    assert (caught.value.path, caught.value.position) == (str(segment), len(first))


@pytest.mark.parametrize(("start", "end"), [(0, 6), (1, 6), (3, 5), (5, 6), (0, 1), (6, 6)])
def test_only_the_rows_that_were_asked_for_are_there(start: int, end: int) -> None:
    data = b"".join(three_batches())
    split = replace(split_of(data), start_offset=Offset(start), end_offset=Offset(end))
    assert [row["offset"] for row in rows(split, data)] == list(range(start, end))


def test_who_wants_to_go_on_gets_a_row_for_each_damaged_batch_and_all_other_records() -> None:
    first, second, third = three_batches()
    flipped = second[:-1] + b"!"
    malformed = sealed(third[:-1] + b"\x02")
    rest = batch([b"a3", b"b3"], base_offset=6)
    data = first + flipped + malformed + rest
    found = [row for group in records_of(split_of(data, position=50), data, tolerant=True) for row in group.to_pylist()]
    assert [row["offset"] for row in found] == [0, 1, 2, 4, 6, 7]
    marked = [row for row in found if row["corrupt"] is not None]
    assert [row["position"] for row in marked] == [50 + len(first), 50 + len(first) + len(second)]
    assert [row["batch_size"] for row in marked] == [len(second), len(third)]
    assert all("expected a valid batch" in row["corrupt"] for row in marked)
    assert {(row["epoch"], row["timestamp"], row["value"]) for row in marked} == {(None, None, None)}


def test_bytes_that_are_no_batch_are_one_row_for_who_wants_to_go_on() -> None:
    first, second, _ = three_batches()
    data = first + b"!" * 70 + second
    found = [row for group in records_of(split_of(data), data, tolerant=True) for row in group.to_pylist()]
    assert [row["offset"] for row in found] == [0, 1, 2]
    assert (found[2]["position"], found[2]["batch_size"]) == (len(first), 70 + len(second))


def test_what_a_live_quorum_served_has_no_place() -> None:
    data = three_batches()[0]
    found = rows(replace(split_of(data), replica=None), data)
    assert [(row["replica"], row["segment"], row["position"]) for row in found] == [(None, None, None)] * 2


EVERYTHING = arrow_of(StructType([*RECORDS, *HEADERS, *(field for field in KAFKA if field.name not in RECORDS.names)]))


@pytest.mark.parametrize("path", [*GOLDEN[:3], *OTHERS], ids=lambda path: path.stem)
def test_each_column_alone_is_what_it_is_among_all(path: Path) -> None:
    """Columns that are not in the records are made without reading these."""
    data = path.read_bytes()
    split = split_of(data)
    whole = pa.Table.from_batches(records_of(split, data, selection=Selection(schema=EVERYTHING)))
    assert whole.num_rows
    for field in EVERYTHING:
        schema = pa.schema([field])
        alone = pa.Table.from_batches(records_of(split, data, selection=Selection(schema=schema)), schema)
        assert alone.equals(whole.select([field.name])), field.name


def test_records_are_only_read_for_their_columns() -> None:
    """Malformed records under a valid CRC are an error if a column needs them, and not noticed otherwise."""
    data = bytearray(batch([b"a", b"b"], base_offset=0))
    data[HEADER_SIZE_BYTES] ^= 0x7F
    header = read_header(bytes(data))
    data[17:21] = crc_of(data, 0, header).to_bytes(4, "big")
    only = {name: Selection(schema=pa.schema([EVERYTHING.field(name)])) for name in ("offset", "timestamp", "value")}
    (found,) = records_of(split_of(bytes(data)), bytes(data), selection=only["offset"])
    assert found.column("offset").to_pylist() == [0, 1]
    for name in ("timestamp", "value"):
        with pytest.raises(CorruptionError):
            list(records_of(split_of(bytes(data)), bytes(data), selection=only[name]))


def test_batches_that_are_not_wanted_leave_no_row() -> None:
    data = b"".join(batch([b"a", b"b"], base_offset=2 * at, epoch=at) for at in range(3))
    selection = Selection(schema=arrow_schema("records"), bounds=Bounds(epoch_min=Epoch(1), epoch_max=Epoch(1)))
    (found,) = records_of(split_of(data), data, selection=selection)
    assert found.column("offset").to_pylist() == [2, 3]


FIRST, SECOND, THIRD = three_batches()
PIECE = Split(replica="n1", path=str(Path("data") / "p-0" / "1.log"), position=100, end_position=1_000)


def sound(data: bytes, *, tolerant: bool = False) -> list[int | tuple[int, int, int]]:
    """Position of each batch; position, size and offset of damage."""
    found: list[int | tuple[int, int, int]] = []
    for one in sound_batches(PIECE, data, tolerant=tolerant):
        found += (
            [(one.position, one.size_bytes, one.offset)] if isinstance(one, DamagedBytes) else one.positions.tolist()
        )
    return found


def test_whole_batches_come_one_after_the_other() -> None:
    assert sound(FIRST + SECOND) == [0, len(FIRST)]
    assert sound(b"") == []


@pytest.mark.parametrize(
    "damage", [SECOND[:-1] + b"!", SECOND[:30], b"!" * 80, b"!"], ids=["crc", "cut", "none", "few"]
)
def test_damage_is_an_error_with_file_and_position(damage: bytes) -> None:
    with pytest.raises(CorruptionError, match="expected a valid batch") as caught:
        sound(FIRST + damage)
    assert (caught.value.path, caught.value.position) == (PIECE.path, 100 + len(FIRST))


def test_who_wants_to_go_on_is_told_where_and_at_which_offset() -> None:
    data = FIRST + SECOND[:-1] + b"!" + THIRD + b"!" * 70
    here = len(FIRST)
    end = here + len(SECOND) + len(THIRD)
    assert sound(data, tolerant=True) == [0, (here, len(SECOND), 2), here + len(SECOND), (end, 70, 6)]


@pytest.mark.parametrize("rows", ["records", "batches"])
def test_a_row_of_damage_is_null_but_for_place_size_offset_and_text(rows: str) -> None:
    damage = DamagedBytes(position=5, size_bytes=2**40, offset=Offset(7), text="wrong")
    row = damage_row(PIECE, damage, arrow_schema(rows))
    assert row.schema.equals(arrow_schema(rows), check_metadata=True)
    (known,) = ({name: value for name, value in each.items() if value is not None} for each in row.to_pylist())
    place = {"replica": "n1", "segment": "1.log", "position": 105, "batch_size": INT32_MAX, "corrupt": "wrong"}
    assert known == place | {"offset" if rows == "records" else "base_offset": 7}


def test_columns_of_the_place() -> None:
    columns = location_columns(PIECE, np.array([1, 2]))
    assert {name: column.to_pylist() for name, column in columns.items()} == {
        "replica": ["n1", "n1"],
        "segment": ["1.log", "1.log"],
        "position": [1, 2],
        "topic": ["p", "p"],
        "partition": [0, 0],
    }


@pytest.mark.parametrize(
    ("folder", "topic", "partition"),
    [("__cluster_metadata-0", "__cluster_metadata", 0), ("a-b-12", "a-b", 12), ("copy", "copy", 0), ("n-x", "n-x", 0)],
)
def test_a_partition_directory_names_topic_and_partition(folder: str, topic: str, partition: int) -> None:
    columns = location_columns(replace(PIECE, path=f"{folder}/1.log"), np.array([0]))
    assert (columns["topic"].to_pylist(), columns["partition"].to_pylist()) == ([topic], [partition])


def test_a_live_quorum_has_the_topic_that_kafka_s_tools_ask_for() -> None:
    columns = location_columns(replace(PIECE, replica=None), np.array([0]))
    assert [columns[name].to_pylist() for name in ("topic", "partition", "segment")] == [
        ["__cluster_metadata"],
        [0],
        [None],
    ]


@pytest.mark.parametrize("value", ["text", 5, None])
def test_a_column_of_one_value_has_as_many_rows_as_asked_for(value: str | int | None) -> None:
    for count in (0, 1, 3, 65_536, 65_537):
        column = constant(value, count)
        column.validate(full=True)
        assert len(column) == count
        assert set(column.to_pylist()) <= {value}


def test_the_rows_of_the_source_are_kafkas_json_record_for_record() -> None:
    recording = QUORUMS / "dynamic"
    dumped = sections((recording / "dump" / "n1-decoded.txt").read_text())
    lines = [line for name, lines in dumped.items() if name.endswith(".log") for line in lines]
    payloads = [json.loads(line.partition(" payload: ")[2]) for line in lines if " payload: {" in line]
    options = {"path": str(recording / "disk" / "n1" / "data" / "__cluster_metadata-0"), "columns": "metadata"}
    reader = LogReader(parse_options(options))
    groups = [rows.to_pylist() for partition in reader.partitions() for rows in reader.read(partition)]
    rows = [row for group in groups for row in group]
    assert [
        {"type": row["type"], "version": row["version"], "data": json.loads(row["data"])} for row in rows
    ] == payloads
    assert {row["problem"] for row in rows} == {None}
    assert [row["offset"] for row in rows] == sorted({row["offset"] for row in rows})


def test_secrets_are_masked_and_unknown_values_say_why() -> None:
    values = [encoded(name, version, full_body(name, version)) for name, version in ALL]
    rows = pa.RecordBatch.from_pydict(metadata_columns(pa.array([*values, b"hello", None], pa.binary()))).to_pylist()
    assert [(row["type"], row["version"]) for row in rows[:-2]] == ALL
    assert [row["problem"] is None for row in rows] == [True] * len(ALL) + [False, False]
    assert all(rows[-1][name] is None for name in METADATA_COLUMNS if name != "problem")
    (credential,) = (json.loads(row["data"]) for row in rows if row["type"] == "USER_SCRAM_CREDENTIAL_RECORD")
    assert [credential[name] for name in ("salt", "storedKey", "serverKey")] == ["***"] * 3


def test_rows_of_batches_have_no_metadata() -> None:
    with pytest.raises(UsageError, match="columns = metadata has a row for each record: leave out rows = batches"):
        parse_options({"path": "p", "columns": "metadata", "rows": "batches"})


def split_of(data: bytes, *, position: int = 0) -> Split:
    return Split(replica="n1", path="p-0/1.log", position=position, end_position=position + len(data))


def batch_rows(split: Split, data: bytes, *, tolerant: bool = False) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for group in batches_of(split, data, tolerant=tolerant):
        assert group.schema.equals(arrow_schema("batches"), check_metadata=True)
        group.validate(full=True)
        found += group.to_pylist()
    return found


@pytest.mark.parametrize("rows_max", [1, 3, 4_096])
def test_every_batch_is_a_row_with_its_bytes(rows_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "BATCH_ROWS_MAX", rows_max)
    data = STATIC_LOG.read_bytes() + b"".join(
        path.read_bytes() for path in (TESTS / "protocol" / "batches").glob("*.bin")
    )
    found = batch_rows(split_of(data, position=100), data)
    expected = list(scan(data))
    assert b"".join(row["content"] for row in found) == data
    for row, (position, header) in zip(found, expected, strict=True):
        assert (row["position"], row["batch_size"]) == (100 + position, header.size_bytes)
        assert (row["base_offset"], row["last_offset"]) == (header.base_offset, header.last_offset)
        assert (row["epoch"], row["records_count"], row["crc"]) == (header.epoch, header.records_count, header.crc)
        assert row["max_timestamp"].timestamp() * 1_000 == header.max_timestamp
        assert row["is_control"] is header.is_control
        assert row["corrupt"] is None
    assert {row["compression"] for row in found} >= {"none", "gzip", "snappy", "lz4", "zstd"}


@pytest.mark.parametrize(("start", "end", "bases"), [(0, 6, [0, 2, 4]), (1, 3, [0, 2]), (2, 4, [2]), (6, 6, [])])
def test_a_batch_is_wanted_when_one_of_its_records_is(start: int, end: int, bases: list[int]) -> None:
    data = b"".join(three_batches())
    split = replace(split_of(data), start_offset=Offset(start), end_offset=Offset(end))
    assert [row["base_offset"] for row in batch_rows(split, data)] == bases


def test_a_flipped_byte_is_an_error_or_a_row() -> None:
    first, second, third = three_batches()
    data = first + second[:-1] + b"!" + third
    with pytest.raises(CorruptionError, match="expected a valid batch"):
        batch_rows(split_of(data), data)
    found = batch_rows(split_of(data), data, tolerant=True)
    assert [row["base_offset"] for row in found] == [0, 2, 4]
    assert [row["corrupt"] is None for row in found] == [True, False, True]
    assert (found[1]["content"], found[1]["batch_size"]) == (None, len(second))
    assert b"".join(row["content"] for row in found if row["content"]) == first + third


def test_some_columns_of_some_batches() -> None:
    """A batch in the middle is left out: those around it stand in row groups of their own."""
    data = b"".join(batch([b"a", b"b"], base_offset=2 * at, timestamp_ms=START_MS + at % 2) for at in range(4))
    schema = pa.schema([arrow_schema("batches").field(name) for name in ("content", "base_offset")])
    selection = Selection(schema=schema, bounds=Bounds(timestamp_ms_min=START_MS + 1))
    found = [row for group in batches_of(split_of(data), data, selection=selection) for row in group.to_pylist()]
    assert [row["base_offset"] for row in found] == [2, 6]
    size_bytes = len(data) // 4
    assert [row["content"] for row in found] == [data[at * size_bytes :][:size_bytes] for at in (1, 3)]


def read(partition: InputPartition, **options: str) -> list[dict[str, Any]]:
    parsed = parse_options({"path": "p-0"} | options)
    return [
        row for group in read_split(partition, parsed, select(columns_for(parsed), parsed)) for row in group.to_pylist()
    ]


def whole(segment: Path) -> SplitPartition:
    split = Split(replica="n1", path=str(segment), position=0, end_position=segment.stat().st_size)
    return SplitPartition((split,))


def test_rows_of_records_and_of_batches(tmp_path: Path) -> None:
    partition = whole(write_segment(tmp_path, b"".join(three_batches())))
    assert [row["offset"] for row in read(partition)] == list(range(6))
    assert [row["base_offset"] for row in read(partition, rows="batches")] == [0, 2, 4]


@pytest.mark.parametrize(("rows", "count"), [("records", 5), ("batches", 3)])
def test_damage_ends_the_task_unless_it_is_to_be_marked(rows: str, count: int, tmp_path: Path) -> None:
    first, second, third = three_batches()
    partition = whole(write_segment(tmp_path, first + second[:-1] + b"!" + third))
    with pytest.raises(CorruptionError):
        read(partition, rows=rows)
    found = read(partition, rows=rows, corrupt="mark")
    assert len(found) == count
    assert len([row for row in found if row["corrupt"]]) == 1


def test_what_the_walk_found_damaged_is_one_row(tmp_path: Path) -> None:
    split = Split(
        replica="n1",
        path=str(tmp_path / "1.log"),
        position=7,
        end_position=90,
        start_offset=Offset(4),
        damage="no batch",
    )
    (row,) = read(SplitPartition((split,)), corrupt="mark")
    assert (row["position"], row["batch_size"], row["offset"], row["corrupt"]) == (7, 83, 4, "no batch")


def test_a_partition_without_a_split_has_no_row() -> None:
    assert read(InputPartition(None)) == []


def test_a_segment_that_is_gone_since_the_plan_has_no_row_if_that_may_be(tmp_path: Path) -> None:
    for number in range(3):
        write_segment(tmp_path / "n1" / "p-0", three_batches()[number], base_offset=2 * number)
    given = {"path": str(tmp_path / "n1" / "p-0")}
    (partition,) = LogReader(parse_options(given)).partitions()
    (tmp_path / "n1" / "p-0" / "00000000000000000002.log").unlink()
    with pytest.raises(StorageError, match=r"00000000000000000002\.log"):
        read(partition)
    assert [row["offset"] for row in read(partition, failOnDataLoss="false")] == [0, 1, 4, 5]


def test_many_small_segments_are_a_few_tasks(tmp_path: Path) -> None:
    """A task costs some 40 ms, and a segment of so few bytes one."""
    for number in range(300):
        write_segment(tmp_path / "n1" / "p-0", batch([b"a", b"b"], base_offset=2 * number), base_offset=2 * number)
    reader = LogReader(parse_options({"path": str(tmp_path / "n1" / "p-0")}))
    partitions = list(reader.partitions())
    assert len(partitions) <= 40
    assert [row["offset"] for part in partitions for row in read(part)] == list(range(600))
    asked = LogReader(parse_options({"path": str(tmp_path / "n1" / "p-0"), "minPartitions": "100"}))
    assert len(asked.partitions()) >= 100

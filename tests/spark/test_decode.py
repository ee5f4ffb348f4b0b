"""Arrow rows are what the protocol's own decoder reads, record by record, and damage names its place."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pykraft.errors import CorruptionError
from pykraft.protocol.records import decode_control, decode_records, encode_control_batch, scan
from pykraft.spark import decode
from pykraft.spark.decode import rows_of
from pykraft.spark.files import Piece, pieces_of, read_piece
from pykraft.spark.schema import arrow_schema
from pykraft.types import Epoch, KRaftVersion, Offset
from tests.spark.logs import EPOCH, START_MS, batch, three_batches, write_segment

pytestmark = pytest.mark.spark

TESTS = Path(__file__).parents[1]
GOLDEN = sorted(path for path in (TESTS / "golden").rglob("*.log") if path.stem.isdigit())
OTHERS = sorted((TESTS / "protocol" / "batches").glob("*.bin"))
EPOCH_START = datetime(1970, 1, 1, tzinfo=UTC)


def piece_of(data: bytes, *, position: int = 0) -> Piece:
    """A piece that holds these bytes, as if they stood there in the file."""
    return Piece(replica="n1", path="p-0/1.log", position=position, end_position=position + len(data))


def rows(piece: Piece, data: bytes) -> list[dict[str, Any]]:
    """All rows as dicts."""
    found: list[dict[str, Any]] = []
    for group in rows_of(piece, data):
        assert group.schema.equals(arrow_schema(), check_metadata=True)
        found += group.to_pylist()
    return found


def expected(piece: Piece, data: bytes) -> Iterator[dict[str, Any]]:
    """The same by the protocol's decoders."""
    for position, header in scan(data):
        body = data[position : position + header.size_bytes]
        kinds = [type(one).__name__ for one in decode_control(body)] if header.is_control else []
        for index, record in enumerate(decode_records(body)):
            yield {
                "replica": piece.replica,
                "segment": Path(piece.path).name,
                "position": piece.position + position,
                "batch_size": header.size_bytes,
                "offset": record.offset,
                "epoch": header.epoch,
                "timestamp": EPOCH_START + timedelta(milliseconds=record.timestamp_ms),
                "is_control": header.is_control,
                "control_type": kinds[index] if kinds else None,
                "key": record.key,
                "value": record.value,
            }


@pytest.mark.parametrize("segment", GOLDEN, ids=[str(path.relative_to(TESTS / "golden")) for path in GOLDEN])
def test_logs_that_kafka_wrote_are_read_field_by_field(segment: Path) -> None:
    for piece in pieces_of("n1", [segment]):
        data = read_piece(piece)
        assert rows(piece, data) == list(expected(piece, data))


@pytest.mark.parametrize("path", OTHERS, ids=[path.stem for path in OTHERS])
def test_batches_of_another_client_keep_keys_times_and_offsets(path: Path) -> None:
    data = path.read_bytes()
    found = rows(piece_of(data), data)
    assert found == list(expected(piece_of(data), data))
    assert len({row["timestamp"] for row in found}) > 1
    assert {row["key"] is None for row in found} == {True, False}


def mixed() -> bytes:
    """Data, control, another client's, data again."""
    control = encode_control_batch(
        [KRaftVersion(level=1)], base_offset=Offset(9), epoch=Epoch(EPOCH), timestamp_ms=START_MS
    )
    return batch([b"x", b"yy"], base_offset=7) + control + OTHERS[0].read_bytes() + batch([b"z"], base_offset=200)


@pytest.mark.parametrize("rows_max", [1, 3, 50, 1_000])
def test_kinds_mix_in_row_groups_of_any_size(rows_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "ROWS_MAX", rows_max)
    data = mixed()
    piece = piece_of(data, position=1_000)
    assert rows(piece, data) == list(expected(piece, data))
    sizes = [group.num_rows for group in rows_of(piece, data)]
    assert all(size <= max(rows_max, 40) for size in sizes)
    assert (len(sizes) > 1) == (rows_max < 44)


def test_a_row_group_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    batches = three_batches()
    monkeypatch.setattr(decode, "BATCHES_SIZE_BYTES_MAX", 2 * len(batches[0]))
    data = b"".join(batches)
    assert [group.num_rows for group in rows_of(piece_of(data), data)] == [4, 2]


def test_nothing_gives_no_row_group() -> None:
    assert list(rows_of(piece_of(b""), b"")) == []


@pytest.mark.parametrize("at", [16, 30, -1], ids=["magic", "header", "value"])
def test_a_flipped_byte_names_file_and_position(at: int, tmp_path: Path) -> None:
    first, second, third = three_batches()
    damaged = bytearray(second)
    damaged[at] ^= 1
    segment = write_segment(tmp_path, first + damaged + third)
    (piece,) = pieces_of("n1", [segment])
    with pytest.raises(CorruptionError, match="expected a valid batch") as caught:
        list(rows_of(piece, read_piece(piece)))
    assert (caught.value.path, caught.value.position) == (str(segment), len(first))

"""What one Spark task reads: pieces of whole batches, cut from a walk over a replica's log.

A piece says which of its rows are wanted, since an asked-for offset may lie within a batch. A stretch of damage is a
piece of its own, which is one row that tells of it.

Invariant: a piece is whole batches of one segment, and all pieces of a plan are the asked-for part of the log, each
batch once. It refuses to know records.

Source: KIP-595 (log layout).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from pykraft.errors import CorruptionError, StorageError
from pykraft.log.fs import File
from pykraft.log.os_fs import OsFs
from pykraft.protocol.batch import HEADER_SIZE_BYTES
from pykraft.spark.walk import Cursor, Stretch, after
from pykraft.types import Offset

PIECE_SIZE_BYTES = 64 * 1024 * 1024
"""About how much of a segment one task reads."""
PART_SIZE_BYTES = 8 * 1024 * 1024
"""About how much of it is in memory at one time."""
LENGTH_START, LENGTH_END = 8, 12
DELETED = ".deleted"
OFFSET_MIN, OFFSET_MAX = Offset(0), Offset(2**63 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Whole batches of one segment, from ``position`` to ``end_position``, and which offsets of them are wanted.

    Ends are exclusive. With ``damage`` told, these bytes are no batches; a batch should begin there at
    ``start_offset``.
    """

    replica: str | None
    path: str
    position: int
    end_position: int
    start_offset: Offset = OFFSET_MIN
    end_offset: Offset = OFFSET_MAX
    damage: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Where a plan ends at the latest: at an offset (exclusive), or with so many records or bytes, but one batch."""

    end_offset: Offset = OFFSET_MAX
    records_max: int | None = None
    size_bytes_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The pieces, in order, and the place behind them."""

    pieces: tuple[Piece, ...]
    end: Cursor


def plan_pieces(
    replica: str | None,
    start: Cursor,
    stretches: Iterable[Stretch],
    *,
    start_offset: Offset,
    limit: Limit,
    size_bytes: int = PIECE_SIZE_BYTES,
) -> Plan:
    """Cut what a walk yields from ``start`` on into pieces of about so many bytes; rows begin at ``start_offset``.

    Errors: those of the walk.
    """
    pieces: list[Piece] = []
    end, records, taken_bytes = start, 0, 0
    open_piece: Piece | None = None

    def close() -> None:
        nonlocal open_piece
        if open_piece is not None:
            pieces.append(open_piece)
        open_piece = None

    for one in stretches:
        count, length = one.end_offset - one.offset, one.end_position - one.position
        has_room = (limit.records_max is None or records + count <= limit.records_max) and (
            limit.size_bytes_max is None or taken_bytes + length <= limit.size_bytes_max
        )
        if one.offset >= limit.end_offset or (taken_bytes and not has_room):
            break
        records, taken_bytes = records + count, taken_bytes + length
        end = after(one, end)
        if open_piece is not None and not _goes_on(open_piece, one, size_bytes):
            close()
        if open_piece is None:
            open_piece = Piece(
                replica=replica,
                path=str(one.segment),
                position=one.position,
                end_position=one.end_position,
                start_offset=start_offset if one.damage is None else one.offset,
                end_offset=limit.end_offset,
                damage=one.damage,
            )
        else:
            open_piece = replace(open_piece, end_position=one.end_position)
    close()
    return Plan(pieces=tuple(pieces), end=end)


def _goes_on(piece: Piece, one: Stretch, size_bytes: int) -> bool:
    is_same = piece.path == str(one.segment) and piece.damage is None and one.damage is None
    return is_same and one.end_position - piece.position <= size_bytes


def read_parts(piece: Piece, *, size_bytes: int = PART_SIZE_BYTES) -> Iterator[tuple[Piece, bytes]]:
    """A piece in parts of whole batches, each with its bytes, so that only one needs to be in memory.

    A part is of about ``size_bytes``, or one batch.

    Errors: CorruptionError when the file is no longer as it was; StorageError when it cannot be read.
    """
    file = _open(Path(piece.path))
    try:
        least = max(size_bytes, HEADER_SIZE_BYTES)
        position, wanted = piece.position, least
        while position < piece.end_position:
            data = file.pread(min(wanted, piece.end_position - position), position)
            whole, next_size_bytes = _whole_batches(data)
            if whole:
                end_position = position + whole
                yield replace(piece, position=position, end_position=end_position), data[:whole]
                position, wanted = end_position, least
            elif wanted < next_size_bytes <= piece.end_position - position:
                wanted = next_size_bytes
            else:
                found = f"{len(data)} bytes that are none"
                raise CorruptionError(piece.path, position=position, expected="a whole batch", found=found)
    finally:
        file.close()


def _open(segment: Path) -> File:
    """A segment, under the name that it has for its last minute when its node deleted it. Errors: StorageError."""
    try:
        return OsFs().open(segment)
    except StorageError:
        deleted = segment.with_name(segment.name + DELETED)
        if not deleted.exists():
            raise
    return OsFs().open(deleted)


def _whole_batches(data: bytes) -> tuple[int, int]:
    """Bytes of the whole batches at the begin, as their lengths say, and of the one that is cut after them, or 0."""
    end = 0
    while len(data) - end >= LENGTH_END:
        size_bytes = LENGTH_END + int.from_bytes(data[end + LENGTH_START : end + LENGTH_END], "big", signed=True)
        if size_bytes < HEADER_SIZE_BYTES:
            return end, 0
        if size_bytes > len(data) - end:
            return end, size_bytes
        end += size_bytes
    return end, 0

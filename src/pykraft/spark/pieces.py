"""What one Spark task reads: pieces of whole batches, cut from a walk over a replica's log.

A piece has the range of wanted offsets, since a requested offset may lie within a batch. A damaged stretch is a piece
of its own and becomes one row that reports it.

The driver makes the plan, and a live directory may change before a task reads its piece. So a piece has offset, epoch
and CRC of its first and its last batch. The reader checks both, and that all batches between follow each other. Logs
that have a batch of the same offset and epoch are equal up to it, so a match proves that this is the planned log.

Invariant: a piece is whole batches of one segment; the pieces of a plan are the requested part of the log, each batch
once.

Source: KIP-595 (log layout); Raft §5.3 (Log Matching).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from struct import Struct
from typing import Final

from pykraft.errors import CorruptionError, StorageError, UsageError
from pykraft.log.fs import File
from pykraft.log.os_fs import OsFs
from pykraft.protocol.batch import HEADER_SIZE_BYTES, BatchHeader
from pykraft.spark.walk import OFFSET_MAX, Cursor, Stretch, after, batches_within
from pykraft.types import Epoch, Offset

PIECE_SIZE_BYTES = 64 * 1024 * 1024
"""About how much of a segment one task reads."""
PART_SIZE_BYTES = 8 * 1024 * 1024
"""About how much of it is in memory at a time."""
LENGTH_START, LENGTH_END = 8, 12
_CHAIN: Final = Struct(">qiibIhi")
"""The start of a batch header, up to the last offset delta."""
DELETED = ".deleted"
OFFSET_MIN = Offset(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Identifies a batch."""

    base_offset: Offset
    end_offset: Offset
    epoch: Epoch
    crc: int

    @classmethod
    def of(cls, header: BatchHeader) -> Mark:
        """The mark of a batch."""
        return cls(base_offset=header.base_offset, end_offset=header.end_offset, epoch=header.epoch, crc=header.crc)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Whole batches of one segment, from ``position`` to ``end_position``, and the wanted offsets.

    Ends are exclusive. ``first`` and ``last`` are its first and last batch, None if no plan knows them. If ``damage``
    is set, these bytes are not batches; a batch should start there at ``start_offset``.
    """

    replica: str | None
    path: str
    position: int
    end_position: int
    start_offset: Offset = OFFSET_MIN
    end_offset: Offset = OFFSET_MAX
    first: Mark | None = None
    last: Mark | None = None
    damage: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The latest end of a plan: an offset (exclusive), or this many records or bytes, but at least one batch."""

    end_offset: Offset = OFFSET_MAX
    records_max: int | None = None
    size_bytes_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The pieces in order, and the cursor after them."""

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
    """Cut the result of a walk from ``start`` on into pieces of about this many bytes; rows start at ``start_offset``.

    If the limit falls into a stretch of many batches, its headers are read one by one.

    Errors: those of the walk.
    """
    cut = _Cut(replica, start, start_offset=start_offset, limit=limit, size_bytes=size_bytes)
    for one in stretches:
        if cut.has_room(one):
            cut.take(one)
            continue
        for batch in batches_within(one) if one.is_coarse else (one,):
            if not cut.has_room(batch):
                break
            cut.take(batch)
        break
    return Plan(pieces=tuple(cut.pieces), end=cut.end)


class _Cut:
    """The pieces so far."""

    def __init__(
        self, replica: str | None, start: Cursor, *, start_offset: Offset, limit: Limit, size_bytes: int
    ) -> None:
        self._replica = replica
        self._start_offset = start_offset
        self._limit = limit
        self._piece_size_bytes = size_bytes
        self._records = self._size_bytes = 0
        self.pieces: list[Piece] = []
        self.end = start

    def has_room(self, one: Stretch) -> bool:
        """Whether this is within the limit; the first batch always is, unless it starts behind the end."""
        limit = self._limit
        if one.offset >= limit.end_offset or (one.is_coarse and one.end_offset > limit.end_offset):
            return False
        if not self._size_bytes and not one.is_coarse:
            return True
        records = self._records + one.end_offset - one.offset
        size_bytes = self._size_bytes + one.end_position - one.position
        return (limit.records_max is None or records <= limit.records_max) and (
            limit.size_bytes_max is None or size_bytes <= limit.size_bytes_max
        )

    def take(self, one: Stretch) -> None:
        """Add it to the last piece, or start another one."""
        self._records += one.end_offset - one.offset
        self._size_bytes += one.end_position - one.position
        self.end = after(one, self.end)
        first, last = (None if header is None else Mark.of(header) for header in (one.first, one.header))
        if self.pieces and _goes_on(self.pieces[-1], one, self._piece_size_bytes):
            self.pieces[-1] = replace(self.pieces[-1], end_position=one.end_position, last=last)
            return
        self.pieces.append(
            Piece(
                replica=self._replica,
                path=str(one.segment),
                position=one.position,
                end_position=one.end_position,
                start_offset=self._start_offset if one.damage is None else one.offset,
                end_offset=self._limit.end_offset,
                first=first,
                last=last,
                damage=one.damage,
            )
        )


def _goes_on(piece: Piece, one: Stretch, size_bytes: int) -> bool:
    is_same = piece.path == str(one.segment) and piece.damage is None and one.damage is None
    return is_same and one.end_position - piece.position <= size_bytes


def read_parts(piece: Piece, *, size_bytes: int = PART_SIZE_BYTES) -> Iterator[tuple[Piece, bytes]]:
    """Read a piece in parts of whole batches, each with its bytes, so that only one part is in memory.

    A part has about ``size_bytes``, or one batch.

    Errors: UsageError if the log was rewritten since the plan was made; CorruptionError if the file has changed
    otherwise; StorageError if it cannot be read.
    """
    with closing(_open(Path(piece.path))) as file:
        least = max(size_bytes, HEADER_SIZE_BYTES)
        position, wanted = piece.position, least
        last: Mark | None = None
        while position < piece.end_position:
            data = file.pread(min(wanted, piece.end_position - position), position)
            whole, next_size_bytes = _whole_batches(data)
            if whole:
                if piece.first is not None:
                    last = _follow(piece, position, data[:whole], last)
                end_position = position + whole
                yield replace(piece, position=position, end_position=end_position), data[:whole]
                position, wanted = end_position, least
            elif wanted < next_size_bytes <= piece.end_position - position:
                wanted = next_size_bytes
            else:
                found = f"{len(data)} bytes that are none"
                raise CorruptionError(piece.path, position=position, expected="a whole batch", found=found)


def _follow(piece: Piece, position: int, data: bytes, last: Mark | None) -> Mark:
    """The last of these batches, which must follow ``last``, each other, and the plan. Errors: as `read_parts`."""
    at = 0
    while at < len(data):
        base_offset, length, epoch, _, crc, _, last_delta = _CHAIN.unpack_from(data, at)
        found = Mark(base_offset=base_offset, end_offset=Offset(base_offset + last_delta + 1), epoch=epoch, crc=crc)
        if last is None and found != piece.first:
            raise _rewritten(piece, position + at, found, piece.first)
        if last is not None and (base_offset != last.end_offset or epoch < last.epoch):
            wanted = f"offset {last.end_offset} of epoch {last.epoch} or later"
            told = f"offset {base_offset} of epoch {epoch}"
            raise CorruptionError(piece.path, position=position + at, expected=wanted, found=told)
        last, at = found, at + length + LENGTH_END
    assert last is not None, "a part is at least one batch"
    if position + at == piece.end_position and last != piece.last:
        raise _rewritten(piece, position, last, piece.last)
    return last


def _rewritten(piece: Piece, position: int, found: Mark, planned: Mark | None) -> UsageError:
    return UsageError(
        f"{piece.path}: near position {position} stands {found}, where {planned} stood when the plan was made: the log "
        "was cut back and written anew. What a replica has not committed may go. Read a live quorum with the option "
        "bootstrap.controllers, or ask again; a stream needs another checkpoint"
    )


def _open(segment: Path) -> File:
    """Open a segment, under its .deleted name if its node has just deleted it. Errors: StorageError."""
    try:
        return OsFs().open(segment)
    except StorageError:
        deleted = segment.with_name(segment.name + DELETED)
        if not deleted.exists():
            raise
    return OsFs().open(deleted)


def _whole_batches(data: bytes) -> tuple[int, int]:
    """Size of the whole batches at the start, by their lengths, and of the batch that is cut off after them, or 0."""
    end = 0
    while len(data) - end >= LENGTH_END:
        size_bytes = LENGTH_END + int.from_bytes(data[end + LENGTH_START : end + LENGTH_END], "big", signed=True)
        if size_bytes < HEADER_SIZE_BYTES:
            return end, 0
        if size_bytes > len(data) - end:
            return end, size_bytes
        end += size_bytes
    return end, 0

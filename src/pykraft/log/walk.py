"""Reads all batches of a file, damaged ones included, as far as the start of the next one can be found.

Invariant: the result covers the file from ``start`` to ``end`` without a gap, as sound batches and bad bytes. Behind a
bad batch the next one is,

1. if its header is readable and a batch with the next offset begins where its length says, that one;
2. else the next place that looks like the header of a batch without a producer, which all batches of Raft are;
3. else none: the rest of the file cannot be read.

Memory is bounded as in `pykraft.log.scan`. The caller knows which offset must come next.

Source: ours, after Kafka's ``DumpLogSegments``.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pykraft.errors import CorruptionError, ProtocolError, ReadError
from pykraft.log.fs import File
from pykraft.log.scan import scan_runs
from pykraft.protocol.batch import HEADER_SIZE_BYTES, BatchHeader, BatchRun, read_header

SEARCH_SIZE_BYTES: Final = 1024 * 1024
SECTOR_SIZE_BYTES: Final = 4096
"""What a disk loses at once, at least."""
_MAGIC_AT: Final = 16
_LOOKS_LIKE_A_HEADER: Final = re.compile(rb"\x02.{26}\xff{14}", re.DOTALL)
"""From the magic byte to the end of producer id, producer epoch and sequence, all -1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BadBytes:
    """Bytes from ``position`` to ``end`` (exclusive) that are not a sound batch."""

    position: int
    end: int
    problem: CorruptionError
    header: BatchHeader | None
    """The header of the bad batch, if the rest of the file agrees with it."""


def walk(path: Path, file: File, end: int, *, start: int = 0) -> Iterator[tuple[int, BatchHeader] | BadBytes]:
    """Position and header of each sound batch from ``start`` to ``end``, and the bad bytes between them."""
    for place in walk_runs(path, file, end, start=start):
        if isinstance(place, BatchRun):
            yield from place.headers()
        else:
            yield place


def walk_runs(
    path: Path, file: File, end: int, *, start: int = 0
) -> Iterator[tuple[int, BatchHeader] | BatchRun | BadBytes]:
    """Like `walk`, but many plain batches that follow each other come as one run; ``start`` is where a batch begins."""
    position = start
    while position < end:
        try:
            for place in scan_runs(path, file, position, end):
                yield place
                position = place.end if isinstance(place, BatchRun) else place[0] + place[1].size_bytes
        except CorruptionError as error:
            bad = _bad_bytes(file, error, end)
            yield bad
            position = bad.end


def _bad_bytes(file: File, error: CorruptionError, end: int) -> BadBytes:
    position = error.position
    header = header_at(file, position)
    if header is not None and _is_followed(file, position, header, end):
        # 1. The length of the bad batch is credible.
        next_position = position + header.size_bytes
    else:
        # 2. or 3. Search; the result is ``end`` when nothing looks like a header.
        next_position = _search(file, position + 1, end)
        header = None
    return BadBytes(position=position, end=next_position, problem=error, header=header)


def _is_followed(file: File, position: int, header: BatchHeader, end: int) -> bool:
    """True when the length in this header leads to a batch with the next offset, or to the end of the file."""
    next_position = position + header.size_bytes
    if next_position >= end:
        return next_position == end
    following = header_at(file, next_position)
    return following is not None and following.base_offset == header.end_offset


def _search(file: File, position: int, end: int) -> int:
    """Where the next batch seems to begin; ``end`` when there is none."""
    careful_until = position
    while position < end:
        is_careful = position < careful_until
        step = SECTOR_SIZE_BYTES - position % SECTOR_SIZE_BYTES if is_careful else SEARCH_SIZE_BYTES
        try:
            data = file.pread(min(step + HEADER_SIZE_BYTES, end - position), position)
        except ReadError:
            # The disk lost a sector somewhere in here: look at the sectors one by one.
            if not is_careful:
                careful_until = position + step
                continue
            data = b""
        for match in _LOOKS_LIKE_A_HEADER.finditer(data):
            at = match.start() - _MAGIC_AT
            found = header_at(file, position + at) if at >= 0 else None
            if found is not None and found.size_bytes <= end - position - at:
                return position + at
        position += step
    return end


def header_at(file: File, position: int) -> BatchHeader | None:
    """The header here, None when it is cut or inconsistent; the batch may be longer than the file."""
    try:
        return read_header(file.pread(HEADER_SIZE_BYTES, position))
    except (ProtocolError, ReadError):
        return None

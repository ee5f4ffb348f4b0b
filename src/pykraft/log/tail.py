"""Distinguishes what a crash leaves after the last batch of a log from bytes that changed later.

`pykraft.log.judge` asks this when nobody noted how far the log was synced. Behind the last whole batch there may then
be the beginning of a batch that was being written, and sectors of zeros that were never written: preallocated, or lost
with the power while the file had already grown. A byte that changed is something else, also in the newest segment and
also when it makes a batch look cut off: then records that may have been acknowledged would be gone without a word.

Invariant: what is called torn is the beginning of the one batch that must come next, or zeros, up to the end of the
log. No CRC covers a length; the bytes after a batch show that its length is wrong.

Source: Kafka's ``LogSegment.recover`` and ``FileRecords`` (preallocated files).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pykraft.errors import CorruptionError, ProtocolError
from pykraft.log.fs import File, Fs
from pykraft.log.judge import Evidence, Verdict
from pykraft.protocol.batch import HEADER_SIZE_BYTES, BatchHeader, check_crc, crc_of, read_header
from pykraft.types import Epoch, Offset

SECTOR_SIZE_BYTES: Final = 512
TORN_SIZE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Twice the largest batch of a quorum: anything longer is not the start of one batch."""
_LOOK_SIZE_BYTES: Final = 1024 * 1024
_OFFSET: Final = struct.Struct(">q")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The batch that must come next: its base offset and its lowest possible epoch."""

    base_offset: Offset
    epoch: Epoch

    def is_met_by(self, header: BatchHeader) -> bool:
        """Whether this is the header of such a batch."""
        return header.base_offset == self.base_offset and header.epoch >= self.epoch


def verdict_on(
    problem: CorruptionError, expected: Expected, evidence: Evidence, *, fs: Fs, later: Iterable[Path]
) -> Verdict:
    """What a problem is at the place where the batch ``expected`` must stand; it reads only if nothing else tells.

    ``later`` are the segments after that of the problem. Errors: StorageError.
    """

    def is_like_a_crash() -> bool:
        # A crash leaves nothing written in later segments.
        for segment in later:
            with closing(fs.open(segment)) as file:
                if written_end(file):
                    return False
        with closing(fs.open(Path(problem.path))) as file:
            return is_torn(file, problem.position, written_end(file), expected)

    return evidence.verdict_on(problem, expected.base_offset, is_like_a_crash=is_like_a_crash)


def written_end(file: File) -> int:
    """The size of a file without the sectors of zeros at its end."""
    size_bytes = position = file.size()
    while position > 0:
        start = max(0, position - _LOOK_SIZE_BYTES)
        content = file.pread(position - start, start).rstrip(b"\0")
        if content:
            end = start + len(content)
            return min(size_bytes, -(-end // SECTOR_SIZE_BYTES) * SECTOR_SIZE_BYTES)
        position = start
    return 0


def is_torn(file: File, position: int, end: int, expected: Expected) -> bool:
    """Whether a crash explains that there is no valid batch at this position.

    ``end`` is where the written part ends (`written_end`).
    """
    if position >= end:
        return True
    if end - position > TORN_SIZE_BYTES_MAX:
        return False
    rest = file.pread(end - position, position)
    if len(rest.rstrip(b"\0")) <= HEADER_SIZE_BYTES:
        return True  # at most a header: no complete batch is that short
    try:
        header = read_header(rest)
    except ProtocolError:
        return False
    is_cut = header.size_bytes > len(rest)
    return expected.is_met_by(header) and is_cut and not _is_whole(rest, header) and not _is_followed(rest, header)


def _is_whole(rest: bytes, header: BatchHeader) -> bool:
    """Whether nothing is missing except what the length field claims: then the length is wrong."""
    return crc_of(rest, 0, replace(header, size_bytes=len(rest))) == header.crc


def _is_followed(rest: bytes, header: BatchHeader) -> bool:
    """Whether the next batch starts inside the supposed records of this one: then the length is wrong, too."""
    expected = Expected(base_offset=header.end_offset, epoch=header.epoch)
    at = rest.find(_OFFSET.pack(expected.base_offset), HEADER_SIZE_BYTES)
    while at >= 0:
        try:
            follower = read_header(rest, at)
            check_crc(rest, at, follower)
        except ProtocolError:
            pass
        else:
            return expected.is_met_by(follower)
        at = rest.find(_OFFSET.pack(expected.base_offset), at + 1)
    return False

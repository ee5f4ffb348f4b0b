"""Distinguishes what a crash leaves after the last batch of a log from bytes that changed later.

`pykraft.log.judge` asks this when nobody noted how far the log was synced. Behind the last whole batch there may then
be the beginning of a batch that was being written, and sectors of zeros: preallocated, or lost with the power while the
file had already grown. A byte that changed is something else, also when it makes a batch look cut off: then records
that may have been acknowledged would be gone without a word. The surest sign of it is a whole batch behind the bad
bytes, which could follow in this log (ADR 141).

Invariant: what is called torn is the beginning of the one batch that must come next, or zeros, up to the end of the
log. No CRC covers a length; the bytes after a batch show that its length is wrong.

Source: Kafka's ``LogSegment.recover`` and ``FileRecords`` (preallocated files).
"""

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pykraft.errors import CorruptionError, ProtocolError
from pykraft.log.fs import File, Fs
from pykraft.log.judge import Evidence, Verdict
from pykraft.log.walk import BadBytes, walk
from pykraft.protocol.batch import HEADER_SIZE_BYTES, BatchHeader, crc_of, read_header
from pykraft.types import Epoch, Offset

SECTOR_SIZE_BYTES: Final = 512
TORN_SIZE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Twice the largest batch of a quorum: anything longer is not the start of one batch."""
_LOOK_SIZE_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The batch that must come next: its base offset and its lowest possible epoch."""

    base_offset: Offset
    epoch: Epoch

    def is_met_by(self, header: BatchHeader) -> bool:
        return header.base_offset == self.base_offset and header.epoch >= self.epoch

    def is_followed_by(self, header: BatchHeader) -> bool:
        return header.base_offset >= self.base_offset and header.epoch >= self.epoch


def verdict_on(
    problem: CorruptionError, expected: Expected, evidence: Evidence, *, fs: Fs, later: Iterable[Path]
) -> Verdict:
    """What a problem is at the place where the batch ``expected`` must stand; it reads only if nothing else tells.

    ``later`` are the segments after that of the problem. Errors: StorageError.
    """

    def judge_bytes() -> Verdict:
        return verdict_from(fs, Path(problem.path), problem.position, expected, later=later)

    return evidence.verdict_on(problem, expected.base_offset, judge_bytes=judge_bytes)


def verdict_from(fs: Fs, segment: Path, position: int, expected: Expected, *, later: Iterable[Path]) -> Verdict:
    """What the bytes from this position of a segment on are, where ``expected`` must stand and nobody knows more.

    ``later`` are the segments after it. Errors: StorageError.
    """
    rest = list(later)
    if _has_batch(fs, segment, position, expected) or any(_has_batch(fs, each, 0, expected) for each in rest):
        return Verdict.DAMAGED
    # A crash leaves nothing written in later segments.
    if any(_written_end(fs, each) for each in rest):
        return Verdict.UNPROVEN
    with closing(fs.open(segment)) as file:
        return Verdict.TORN if _is_torn(file, position, written_end(file), expected) else Verdict.UNPROVEN


def _has_batch(fs: Fs, segment: Path, position: int, expected: Expected) -> bool:
    """Whether a whole batch stands somewhere behind this position that could follow the sound part of the log."""
    with closing(fs.open(segment)) as file:
        return any(
            not isinstance(place, BadBytes) and expected.is_followed_by(place[1])
            for place in walk(segment, file, file.size(), start=position)
        )


def _written_end(fs: Fs, segment: Path) -> int:
    with closing(fs.open(segment)) as file:
        return written_end(file)


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


def _is_torn(file: File, position: int, end: int, expected: Expected) -> bool:
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
    return expected.is_met_by(header) and is_cut and not _is_whole(rest, header)


def _is_whole(rest: bytes, header: BatchHeader) -> bool:
    """Whether nothing is missing except what the length field claims: then the length is wrong."""
    return crc_of(rest, 0, replace(header, size_bytes=len(rest))) == header.crc

"""Reading a whole log to find where it is sound and, if it is not, whether a crash explains that.

Owns the judgement; it writes nothing. Invariant of a sound log: each batch is whole (header, CRC), begins at the
offset where the one before ended, across segments too, and has no smaller epoch. The first violation at offset x:

- x at or above the recovery point: a torn tail. It was never synced, or its truncation was not finished; the log
  ends at x, and what follows (later segments too) is to be removed.
- x below it: corruption, reported as a range that reaches to the next segment. Nothing is to be removed, and the
  scan goes on behind it to find all ranges.

A log that ends below its recovery point lost what was synced: corruption as well. Without a recovery point
everything may be a torn tail, as in Kafka.

It refuses to know how a log is opened or repaired. Source: Kafka's ``LogLoader.recoverLog``,
``LogSegment.recover``; the recovery point is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Final

from pykraft.core.epochs import EpochCache
from pykraft.errors import CorruptionError
from pykraft.log.config import INT32_MAX, LogConfig
from pykraft.log.fs import Fs
from pykraft.log.paths import LOG, segment_file
from pykraft.log.recovery_point import FILE_NAME
from pykraft.log.scan import REPAIR, scan_file
from pykraft.log.segment import SegmentContent
from pykraft.protocol.batch import BatchHeader
from pykraft.types import EPOCH_ZERO, Epoch, Offset

_REPAIR: Final = f"{REPAIR}; if Kafka has run on this directory since, remove the file {FILE_NAME} instead"


@dataclass(frozen=True, slots=True, kw_only=True)
class CorruptRange:
    """Bytes below the recovery point that are not what was once synced; ``end_offset`` is exclusive."""

    path: Path
    position: int
    start_offset: Offset
    end_offset: Offset
    expected: str
    found: str

    def error(self) -> CorruptionError:
        """The range as an error that names file, position and repair."""
        expected = f"{self.expected} (offsets {self.start_offset} to {self.end_offset} were synced before)"
        return CorruptionError(self.path, position=self.position, expected=expected, found=self.found, repair=_REPAIR)


@dataclass(slots=True, kw_only=True)
class LogScan:
    """The sound prefix of a log, and what ended it."""

    contents: list[SegmentContent] = field(default_factory=list)
    """Segments of the sound prefix; the last may be followed by bytes that do not count."""
    epochs: EpochCache = field(default_factory=EpochCache)
    corrupt: list[CorruptRange] = field(default_factory=list)
    torn: CorruptionError | None = None
    """Why the sound prefix ends before the files do, when a crash explains it."""
    scanned_bytes: int = 0

    @property
    def end_offset(self) -> Offset:
        """Offset after the last sound batch."""
        return self.contents[-1].end_offset


def scan_log(
    fs: Fs, directory: Path, base_offsets: Sequence[Offset], *, config: LogConfig, recovery_point: Offset
) -> LogScan:
    """Read the segments of these base offsets (ascending); none: an empty log at 0. Errors: StorageError."""
    scan = LogScan()
    if not base_offsets:
        scan.contents.append(SegmentContent(Offset(0), config))
    expected_offset = base_offsets[0] if base_offsets else Offset(0)
    for base_offset, next_base_offset in zip_longest(base_offsets, base_offsets[1:], fillvalue=recovery_point):
        path = directory / segment_file(base_offset, LOG)
        content = SegmentContent(base_offset, config)
        problem = None if base_offset == expected_offset else _gap(path, expected_offset, base_offset)
        if problem is not None and not _judge(scan, problem, expected_offset, base_offset, recovery_point):
            break
        problem = _scan_segment(fs, path, content, scan)
        if not scan.corrupt:
            scan.contents.append(content)
        if problem is not None and not _judge(scan, problem, content.end_offset, next_base_offset, recovery_point):
            break
        expected_offset = content.end_offset if problem is None else next_base_offset
    if not scan.corrupt and scan.end_offset < recovery_point:
        last = scan.contents[-1]
        path = directory / segment_file(last.base_offset, LOG)
        missing = CorruptionError(
            path, position=last.size_bytes, expected=f"offset {last.end_offset}", found="the end of the log"
        )
        _judge(scan, missing, last.end_offset, recovery_point, recovery_point)
    return scan


def _judge(scan: LogScan, problem: CorruptionError, start: Offset, end: Offset, recovery_point: Offset) -> bool:
    """Record a problem that begins at offset ``start``; False when the log ends there."""
    if start >= recovery_point:
        scan.torn = None if scan.corrupt else problem
        return False
    scan.corrupt.append(
        CorruptRange(
            path=Path(problem.path),
            position=problem.position,
            start_offset=start,
            end_offset=max(start, min(end, recovery_point)),
            expected=problem.expected,
            found=problem.found,
        )
    )
    return True


def _scan_segment(fs: Fs, path: Path, content: SegmentContent, scan: LogScan) -> CorruptionError | None:
    """Fill the content with the sound batches of one segment; returns what ended it before the file's end."""
    is_prefix = not scan.corrupt
    latest = scan.epochs.latest
    epoch = latest.epoch if latest and is_prefix else EPOCH_ZERO
    file = fs.open(path)
    try:
        size_bytes = file.size()
        for position, header in scan_file(path, file, 0, size_bytes):
            _check_follows(path, content, position, header, epoch)
            if header.epoch != epoch and is_prefix:
                scan.epochs.assign(header.epoch, header.base_offset)
            epoch = header.epoch
            content.add(header)
    except CorruptionError as problem:
        return problem
    finally:
        scan.scanned_bytes += content.size_bytes
        file.close()
    return None


def _check_follows(path: Path, content: SegmentContent, position: int, header: BatchHeader, epoch: Epoch) -> None:
    """Refuse a batch that is sound in itself but cannot stand here."""
    if header.base_offset != content.end_offset:
        raise _misplaced(path, position, f"offset {content.end_offset}", f"offset {header.base_offset}")
    if header.epoch < epoch:
        raise _misplaced(path, position, f"an epoch of at least {epoch}", f"epoch {header.epoch}")
    if header.last_offset - content.base_offset > INT32_MAX or position + header.size_bytes > INT32_MAX:
        raise _misplaced(path, position, "a segment of less than 2^31 offsets and bytes", "a larger one")


def _misplaced(path: Path, position: int, expected: str, found: str) -> CorruptionError:
    return CorruptionError(path, position=position, expected=expected, found=found)


def _gap(path: Path, expected_offset: Offset, base_offset: Offset) -> CorruptionError:
    return _misplaced(path, 0, f"offset {expected_offset}", f"a segment that begins at offset {base_offset}")

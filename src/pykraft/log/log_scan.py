"""Reads a whole log to find where it is sound and, if it is not, whether a crash explains that.

This module judges and writes nothing. Invariant of a sound log: each batch is whole (header, CRC), begins at the offset
where the previous one ended, also across segments, and does not have a smaller epoch. For the first violation, at
offset x:

- x at or above the recovery point: a torn tail. It was never synced, or its truncation was interrupted. The log ends at
  x, and everything behind it (later segments too) is to be removed.
- x below the recovery point: damage, reported as a range up to the next segment. Nothing is to be removed, and the scan
  continues behind it to find all ranges.

A log that ends below its recovery point lost synced records, which is damage as well. Without a recovery point
everything may be a torn tail, as in Kafka; with an unreadable one (`NO_ONE_KNOWS`) nothing may.

A whole batch (right CRC) at the expected offset is never a torn tail, wherever the recovery point is: a crash cannot
produce a batch that was not written. But no CRC covers its epoch, so the epoch may be damaged. It counts as damage when
it is smaller than the epoch before it; when ``leader-epoch-checkpoint`` has another epoch for an offset below the
recovery point; and when it is above the epoch of ``quorum-state`` and missing in ``leader-epoch-checkpoint``.
``quorum-state`` is durable before any record of its epoch, so a smaller epoch there means that an older copy was
restored, or that the file belongs to another log. If the checkpoint confirms the log's epoch, or there is no
checkpoint, the log is right and ``quorum-state`` is too old.

`pykraft.log.recovery` opens and repairs a log. Source: Kafka's ``LogLoader.recoverLog``, ``LogSegment.recover``; the
recovery point is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Final

from pykraft.core.epochs import EpochCache
from pykraft.errors import CorruptionError, ReadError
from pykraft.log.config import INT32_MAX, LogConfig
from pykraft.log.epoch_checkpoint import FILE_NAME as EPOCHS_NAME
from pykraft.log.fs import Fs
from pykraft.log.paths import LOG, segment_file
from pykraft.log.scan import scan_file
from pykraft.log.segment import SegmentContent
from pykraft.protocol.batch import BatchHeader
from pykraft.types import EPOCH_MAX, EPOCH_ZERO, Damage, Epoch, Offset

NO_ONE_KNOWS: Final = Offset(2**63 - 1)
"""Recovery point of a log that lost its own: anything invalid is damage, and the log may end anywhere."""


class _EpochError(CorruptionError):
    """A whole batch at the expected offset whose epoch contradicts other files or the batch before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What other files say about a log: how far it was synced, where epochs begin, and the highest epoch."""

    recovery_point: Offset
    epochs: EpochCache | None = None
    """None when there is no ``leader-epoch-checkpoint``; empty when it cannot be read."""
    epoch_max: Epoch = EPOCH_MAX
    """Epoch of ``quorum-state``; a record with a higher one counts if ``epochs`` does not contradict it."""


@dataclass(slots=True, kw_only=True)
class LogScan:
    """The sound prefix of a log, and why it ended."""

    contents: list[SegmentContent] = field(default_factory=list)
    """Segments of the sound prefix; bytes that do not count may follow the last one."""
    epochs: EpochCache = field(default_factory=EpochCache)
    corrupt: list[Damage] = field(default_factory=list)
    torn: CorruptionError | None = None
    """Why the sound prefix ends before the files do, if a crash explains it."""
    scanned_bytes: int = 0
    control_offsets: list[Offset] = field(default_factory=list)
    """Base offsets of the control batches in the sound prefix."""

    @property
    def end_offset(self) -> Offset:
        """Offset after the last sound batch."""
        return self.contents[-1].end_offset


def scan_log(fs: Fs, directory: Path, base_offsets: Sequence[Offset], *, config: LogConfig, known: Known) -> LogScan:
    """Read the segments with these base offsets (ascending); none means an empty log at 0. Errors: StorageError."""
    scan, recovery_point = LogScan(), known.recovery_point
    if not base_offsets:
        scan.contents.append(SegmentContent(Offset(0), config))
    expected_offset = base_offsets[0] if base_offsets else Offset(0)
    for base_offset, next_base_offset in zip_longest(base_offsets, base_offsets[1:], fillvalue=recovery_point):
        path = directory / segment_file(base_offset, LOG)
        content = SegmentContent(base_offset, config)
        problem = None if base_offset == expected_offset else _gap(path, expected_offset, base_offset)
        if problem is not None and not _judge(scan, problem, expected_offset, base_offset, recovery_point):
            break
        problem = _scan_segment(fs, path, content, scan, known)
        if not scan.corrupt:
            scan.contents.append(content)
        if problem is not None and not _judge(scan, problem, content.end_offset, next_base_offset, recovery_point):
            break
        expected_offset = content.end_offset if problem is None else next_base_offset
    # Every batch is sound, but synced records are missing at the end.
    if not scan.corrupt and scan.end_offset < recovery_point < NO_ONE_KNOWS:
        last = scan.contents[-1]
        path = directory / segment_file(last.base_offset, LOG)
        missing = CorruptionError(
            path, position=last.size_bytes, expected=f"offset {last.end_offset}", found="the end of the log"
        )
        _judge(scan, missing, last.end_offset, recovery_point, recovery_point)
    return scan


def _judge(scan: LogScan, problem: CorruptionError, start: Offset, end: Offset, recovery_point: Offset) -> bool:
    """Record a problem that begins at offset ``start``; returns False when the log ends there."""
    if start >= recovery_point:
        if not isinstance(problem, _EpochError | ReadError):
            # Nothing from here on was synced, so a crash explains it. An epoch or read error is excluded: a crash
            # cannot cause one.
            scan.torn = None if scan.corrupt else problem
            return False
        # The recovery point does not reach this far, so the end of the damage is unknown.
        end = NO_ONE_KNOWS
    else:
        end = max(start, min(end, recovery_point))
    scan.corrupt.append(
        Damage(
            path=problem.path,
            position=problem.position,
            start_offset=start,
            end_offset=None if end == NO_ONE_KNOWS else end,
            expected=problem.expected,
            found=problem.found,
        )
    )
    return True


def _scan_segment(fs: Fs, path: Path, content: SegmentContent, scan: LogScan, known: Known) -> CorruptionError | None:
    """Fill ``content`` with the sound batches of one segment; returns the problem if they end before the file."""
    is_prefix = not scan.corrupt
    latest = scan.epochs.latest
    epoch = latest.epoch if latest and is_prefix else EPOCH_ZERO
    file = fs.open(path)
    try:
        size_bytes = file.size()
        for position, header in scan_file(path, file, 0, size_bytes):
            _check_follows(path, content, position, header, epoch)
            _check_epoch(path, position, header, known)
            if header.epoch != epoch and is_prefix:
                scan.epochs.assign(header.epoch, header.base_offset)
            epoch = header.epoch
            content.add(header)
            if header.is_control and is_prefix:
                scan.control_offsets.append(header.base_offset)
    except CorruptionError as problem:
        return problem
    finally:
        scan.scanned_bytes += content.size_bytes
        file.close()
    return None


def _check_follows(path: Path, content: SegmentContent, position: int, header: BatchHeader, epoch: Epoch) -> None:
    """Refuse a batch that is sound in itself but cannot follow the previous one."""
    if header.base_offset != content.end_offset:
        raise _misplaced(path, position, f"offset {content.end_offset}", f"offset {header.base_offset}")
    if header.epoch < epoch:
        raise _contradicted(path, position, f"an epoch of at least {epoch}", header)
    if header.last_offset - content.base_offset > INT32_MAX or position + header.size_bytes > INT32_MAX:
        raise _misplaced(path, position, "a segment of less than 2^31 offsets and bytes", "a larger one")


def _check_epoch(path: Path, position: int, header: BatchHeader, known: Known) -> None:
    """Refuse an epoch that other files contradict."""
    if known.epochs is None:
        # Only the batches know the epochs then, so the log is right even if quorum-state has a smaller epoch.
        return
    epoch = known.epochs.epoch_at(header.base_offset)
    if epoch == header.epoch:
        return
    # quorum-state is durable before any record of its epoch, and the checkpoint does not confirm this epoch either.
    if header.epoch > known.epoch_max:
        expected = f"an epoch of at most {known.epoch_max} as in quorum-state, or {header.epoch} in {EPOCHS_NAME}, too"
        raise _contradicted(path, position, expected, header)
    # Above the recovery point the checkpoint may lag behind the log, so only a synced batch is judged by it.
    if epoch is not None and header.base_offset < known.recovery_point:
        raise _contradicted(path, position, f"epoch {epoch} as in {EPOCHS_NAME}", header)


def _contradicted(path: Path, position: int, expected: str, header: BatchHeader) -> _EpochError:
    return _EpochError(path, position=position, expected=expected, found=f"epoch {header.epoch}")


def _misplaced(path: Path, position: int, expected: str, found: str) -> CorruptionError:
    return CorruptionError(path, position=position, expected=expected, found=found)


def _gap(path: Path, expected_offset: Offset, base_offset: Offset) -> CorruptionError:
    return _misplaced(path, 0, f"offset {expected_offset}", f"a segment that begins at offset {base_offset}")

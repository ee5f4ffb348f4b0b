"""Checks that the segments of a partition directory are the log that was once written, without changing anything.

This module judges and writes nothing. A sound log is the one of `pykraft.log.log_scan`: whole batches, no gap in the
offsets across segments, no smaller epoch. Unlike recovery, this check continues behind damage, and it tells three cases
apart:

- *Damage*: an unsound batch below the recovery point, which was synced once. Without a recovery point (Kafka has none),
  anything unsound but a last batch that is cut off.
- *A tail*: unsound bytes at or above the recovery point. A running node is writing them, or a crash tore them; the next
  start cuts them off, so this is only a note.
- *Nothing wrong*: batches that a running node appends meanwhile. Each file is checked up to its size when it was
  opened.

Memory: one chunk, or one larger batch, whatever the size of the log. `pykraft.log.verify_files` checks the other files.

Source: ours, after Kafka's ``LogLoader`` and ``LogSegment.recover``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pykraft.log.fs import File, Fs
from pykraft.log.paths import LOG, OFFSET_INDEX, TIME_INDEX, segment_file
from pykraft.log.recovery_point import FILE_NAME as RECOVERY_POINT_NAME
from pykraft.log.scan import REPAIR
from pykraft.log.verify_findings import Findings
from pykraft.log.verify_index import OffsetIndexCheck, TimeIndexCheck
from pykraft.log.verify_walk import BadBytes, walk
from pykraft.protocol.batch import BatchHeader
from pykraft.types import EpochStart, Offset

OFFSET_ZERO: Final = Offset(0)
PROGRESS_SIZE_BYTES: Final = 4 * 1024 * 1024


@dataclass(slots=True)
class LogSummary:
    """Facts about the log, as far as it was read; ``end_offset`` is exclusive."""

    start_offset: Offset = OFFSET_ZERO
    end_offset: Offset = OFFSET_ZERO
    segments_count: int = 0
    batches_count: int = 0
    size_bytes: int = 0
    epochs: list[EpochStart] = field(default_factory=list)


class LogCheck:
    """One check of a log; `run` performs it."""

    def __init__(
        self,
        fs: Fs,
        directory: Path,
        findings: Findings,
        *,
        recovery_point: Offset | None,
        on_progress: Callable[[int], None],
    ) -> None:
        self.summary = LogSummary()
        self._fs = fs
        self._directory = directory
        self._findings = findings
        self._recovery_point = recovery_point
        self._on_progress = on_progress
        self._is_offset_known = True
        self._is_over = False

    def run(self, base_offsets: Sequence[Offset]) -> LogSummary:
        """Check the segments with these base offsets (ascending). Errors: StorageError."""
        summary = self.summary
        summary.segments_count = len(base_offsets)
        if base_offsets:
            summary.start_offset = summary.end_offset = base_offsets[0]
        for base_offset in base_offsets:
            path = self._directory / segment_file(base_offset, LOG)
            if base_offset != summary.end_offset and self._is_offset_known:
                self._tell(path, 0, f"a segment that begins at offset {summary.end_offset}", f"{base_offset}", 0)
            if self._is_over:
                return summary
            summary.end_offset, self._is_offset_known = base_offset, True
            self._look_at(path, base_offset, is_last=base_offset == base_offsets[-1])
            if self._is_over:
                return summary
        self._check_end()
        return summary

    def _look_at(self, path: Path, base_offset: Offset, *, is_last: bool) -> None:
        with ExitStack() as stack:
            file = stack.enter_context(closing(self._fs.open(path)))
            end = file.size()
            index_path, time_path = path.with_suffix(OFFSET_INDEX), path.with_suffix(TIME_INDEX)
            index = self._open_index(stack, index_path)
            times = self._open_index(stack, time_path)
            segment = _Segment(path, file, end, is_last=is_last)
            if index is not None:
                segment.index = OffsetIndexCheck(index_path, index, base_offset, self._findings)
            if times is not None:
                segment.times = TimeIndexCheck(time_path, times, base_offset, self._findings)
            self._walk(segment)
            self.summary.size_bytes += end
            if self._is_over:
                return
            # A running node appended during the check, so its indexes may have entries behind our end.
            is_growing = is_last and file.size() > end
            if segment.index is not None:
                segment.index.finish(end, is_growing=is_growing)
            if segment.times is not None:
                segment.times.finish(self.summary.end_offset, is_growing=is_growing)

    def _open_index(self, stack: ExitStack, path: Path) -> File | None:
        if self._fs.exists(path):
            return stack.enter_context(closing(self._fs.open(path)))
        self._findings.add_note(path, "is missing; the next start writes it")
        return None

    def _walk(self, segment: _Segment) -> None:
        """The hot loop: a sound batch costs only a few comparisons."""
        summary, told = self.summary, 0
        epoch = summary.epochs[-1].epoch if summary.epochs else -1
        for place in walk(segment.path, segment.file, segment.end):
            if isinstance(place, BadBytes):
                self._bad(segment, place)
                if self._is_over:
                    break
                continue
            position, header = place
            if header.base_offset != summary.end_offset or header.epoch < epoch:
                self._misplaced(segment, position, header, epoch)
                if self._is_over:
                    break
            if header.epoch != epoch:
                epoch = header.epoch
                summary.epochs.append(EpochStart(epoch=epoch, start_offset=header.base_offset))
            summary.end_offset = header.end_offset
            summary.batches_count += 1
            segment.saw(position, header)
            if position - told >= PROGRESS_SIZE_BYTES:
                self._on_progress(position - told)
                told = position
        self._on_progress(segment.end - told)

    def _bad(self, segment: _Segment, bad: BadBytes) -> None:
        """Bytes that are not a sound batch; the offsets behind them may be unknown."""
        # Without a recovery point a last batch that is cut off is a torn tail, as in Kafka.
        if self._recovery_point is None and bad.is_cut and segment.is_last:
            self._tail(segment.path, bad.position, bad.expected, bad.found, segment.end)
            return
        self._tell(segment.path, bad.position, bad.expected, bad.found, segment.end)
        if segment.index is not None:
            segment.index.skip_to(bad.end)
        if bad.header is not None and self._is_offset_known:
            self.summary.end_offset = bad.header.end_offset
            if segment.times is not None:
                segment.times.skip_to(bad.header.end_offset)
        else:
            self._is_offset_known = False

    def _misplaced(self, segment: _Segment, position: int, header: BatchHeader, epoch: int) -> None:
        """A batch that is sound in itself but cannot follow the previous one, or the first one behind bad bytes."""
        if not self._is_offset_known:
            # The first sound batch behind bad bytes tells the offset again; there is nothing to compare it with.
            self._is_offset_known = True
            if segment.times is not None:
                segment.times.skip_to(header.base_offset)
        elif header.base_offset != self.summary.end_offset:
            expected = f"offset {self.summary.end_offset}"
            self._tell(segment.path, position, expected, f"offset {header.base_offset}", segment.end)
        if header.epoch < epoch and not self._is_over:
            expected, found = f"an epoch of at least {epoch}", f"epoch {header.epoch}"
            self._tell(segment.path, position, f"{expected} at offset {header.base_offset}", found, segment.end)

    def _tell(self, path: Path, position: int, expected: str, found: str, end: int) -> None:
        """Report damage, or the start of a tail."""
        point = self._recovery_point
        if point is not None and self.summary.end_offset >= point:
            self._tail(path, position, expected, found, end)
        else:
            self._findings.add_damage(path, position, expected=expected, found=found, advice=REPAIR)

    def _tail(self, path: Path, position: int, expected: str, found: str, end: int) -> None:
        self._is_over = True
        self._findings.add_note(
            path,
            f"{end - position} bytes from position {position} (offset {self.summary.end_offset}) on do not count: "
            f"expected {expected}, found {found}. They are being written, or a crash tore them; nothing synced is "
            "among them, and the next start cuts them off",
        )

    def _check_end(self) -> None:
        """Report synced records that are missing at the end, unless other damage explains it already."""
        point, summary = self._recovery_point, self.summary
        if point is not None and summary.end_offset < point and not self._findings.damage_count:
            self._findings.add_damage(
                self._directory / RECOVERY_POINT_NAME,
                0,
                expected=f"a log of at least {point} offsets: they were synced once",
                found=f"one that ends at offset {summary.end_offset}",
                advice=REPAIR,
            )


class _Segment:
    """One segment during the check: its file up to ``end``, and the indexes that exist."""

    def __init__(self, path: Path, file: File, end: int, *, is_last: bool) -> None:
        self.path = path
        self.file = file
        self.end = end
        self.is_last = is_last
        self.index: OffsetIndexCheck | None = None
        self.times: TimeIndexCheck | None = None
        self._max_timestamp = -1

    def saw(self, position: int, header: BatchHeader) -> None:
        """Check the index entries about a batch that is in the right place."""
        self._max_timestamp = max(self._max_timestamp, header.max_timestamp)
        if self.index is not None and position >= self.index.next_position:
            self.index.saw(position, header)
        if self.times is not None and header.last_offset >= self.times.next_offset:
            self.times.saw(header, self._max_timestamp)

"""Checks that the segments of a partition directory are the log that was once written, without changing anything.

`pykraft.log.judge` gives the verdicts, as for recovery. Unlike recovery, this check continues after damage within a
segment. A torn tail is only a note: a running node is writing these bytes, or the next start cuts them off. An unproven
end is damage, because a start would remove what may have been acknowledged. Each file is checked up to its size when it
was opened.

Segments may be checked by tasks that know nothing of each other: `LogCheck.run_segment` checks one, and `LogCheck.join`
puts the results together. Invariants: every entry of an index is compared with the batches; a result is as small as the
number of its epochs and findings, which are limited. Memory: one chunk, or one larger batch.

Source: ours, after Kafka's ``LogLoader``, ``LogSegment.recover``, ``OffsetIndex`` and ``TimeIndex``.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from pykraft.errors import CorruptionError
from pykraft.log import judge
from pykraft.log.evidence import read_evidence
from pykraft.log.fs import File, Fs
from pykraft.log.offline.verify_findings import Findings
from pykraft.log.offline.verify_index import NO_TIMESTAMP, OffsetIndexCheck, TimeIndexCheck
from pykraft.log.paths import LOG, OFFSET_INDEX, TIME_INDEX, segment_file
from pykraft.log.scan import REPAIR
from pykraft.log.small_files import recovery_point
from pykraft.log.tail import Expected, verdict_on
from pykraft.log.walk import BadBytes, walk_runs
from pykraft.protocol.batch import BatchHeader, BatchRun
from pykraft.types import Epoch, EpochStart, Offset

OFFSET_ZERO: Final = Offset(0)


@dataclass(slots=True)
class LogSummary:
    """Facts about the log, as far as it was read; ``end_offset`` is exclusive."""

    start_offset: Offset = OFFSET_ZERO
    end_offset: Offset = OFFSET_ZERO
    segments_count: int = 0
    batches_count: int = 0
    size_bytes: int = 0
    epochs: list[EpochStart] = field(default_factory=list)
    verdict: judge.Verdict = judge.Verdict.SOUND
    """What ends the sound prefix of the log."""
    sound_end_offset: Offset = OFFSET_ZERO
    """Where the sound prefix ends; the check continues after damage."""
    recovery_point: Offset | None = None
    """None when there is no such file, or when it is damaged."""

    @property
    def is_sound(self) -> bool:
        """True when all batches that count are as they were written."""
        return self.verdict in (judge.Verdict.SOUND, judge.Verdict.TORN)


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedSegment:
    """What `LogCheck.run_segment` found, for the one who joins the segments of a log."""

    base_offset: Offset
    end: int
    """Position; what a node wrote after it was not looked at."""
    summary: LogSummary
    findings: Findings
    is_offset_known: bool
    """False when the segment ends with bytes whose offsets nobody knows; else the next batch has ``end_offset``."""
    is_over: bool
    """The log ends in this segment, whatever comes after it."""
    epoch: Epoch | None
    """Smallest epoch that the next batch may have; None when the segment has no sound batch."""


class SegmentCheck:
    """A segment: its file up to ``end``, and the indexes that exist."""

    def __init__(self, path: Path, file: File, end: int) -> None:
        self.path = path
        self.file = file
        self.end = end
        self.index: OffsetIndexCheck | None = None
        self.times: TimeIndexCheck | None = None
        self.seen_until = 0
        """Where the last sound batch ended."""
        self.max_timestamp = NO_TIMESTAMP
        """The largest so far."""

    def saw(self, position: int, header: BatchHeader) -> None:
        """Check the index entries about a batch that is in the right place."""
        self.max_timestamp = max(self.max_timestamp, header.max_timestamp)
        if self.index is not None and position >= self.index.next:
            self.index.saw(position, header.last_offset)
        if self.times is not None and header.last_offset >= self.times.next:
            self.times.saw(header.last_offset, header.max_timestamp, self.max_timestamp)
        self.seen_until = position + header.size_bytes

    def saw_run(self, run: BatchRun) -> None:
        """Check the index entries about these batches, which are all in the right place."""
        positions, last_offsets, timestamps = run.positions, run.last_offsets, run.max_timestamps
        index, times, done = self.index, self.times, 0
        while index is not None and index.next <= positions[-2]:
            at = bisect_left(positions, index.next)
            index.saw(positions[at], last_offsets[at])
        while times is not None and times.next <= last_offsets[-1]:
            at = bisect_left(last_offsets, times.next)
            self.max_timestamp = max(self.max_timestamp, *timestamps[done : at + 1])
            done = at + 1
            times.saw(last_offsets[at], timestamps[at], self.max_timestamp)
        self.max_timestamp = max([self.max_timestamp, *timestamps[done:]])
        self.seen_until = run.end


Placed: TypeAlias = tuple[int, BatchHeader] | BatchRun
"""A batch at its position, or a run of them."""
PROGRESS_SIZE_BYTES: Final = 4 * 1024 * 1024
UNPROVEN_ADVICE: Final = (
    "without a recovery-point file the next start removes everything from here on, as Kafka does. Compare the log with "
    "another replica's first; if that is longer, copy its segments"
)


class LogCheck:
    """One check of a log; `run` performs it, `run_segment` that of a segment, and `join` puts the segments together.

    `run` is no join: what stands at a bad place also depends on the epoch and the end before it.
    """

    def __init__(
        self,
        fs: Fs,
        directory: Path,
        findings: Findings,
        *,
        on_progress: Callable[[int], None],
        on_batches: Callable[[File, Placed], None] | None = None,
    ) -> None:
        """``on_batches`` gets the sound batches that are in the right place, and the file that holds them."""
        self.summary = LogSummary()
        self._fs = fs
        self._directory = directory
        self._names: Sequence[str] = ()
        self._later: Sequence[Path] = ()
        self._findings = findings
        self._evidence = self._gather_evidence()
        self._chain = judge.Chain(self._evidence, OFFSET_ZERO)
        self._on_progress = on_progress
        self._on_batches = on_batches
        self._is_offset_known = True
        self._is_over = False
        self._told: tuple[Path, str, str] | None = None

    def run(self, names: Sequence[str], base_offsets: Sequence[Offset]) -> LogSummary:
        """Check the segments with these base offsets (ascending) of a directory with these names.

        Errors: StorageError.
        """
        return self._go_through(names, base_offsets, self._check_segment)

    def run_segment(self, base_offset: Offset, end: int, later: Sequence[Path]) -> CheckedSegment:
        """Check a segment up to a position, as far as it can be judged alone; ``later`` are the segments after it.

        Errors: StorageError.
        """
        # The recovery point is the directory's; the one who joins the segments reports it.
        self._findings = Findings()
        self._later = later
        self._start_at(base_offset)
        self._check_segment(self._directory / segment_file(base_offset, LOG), base_offset, end)
        return CheckedSegment(
            base_offset=base_offset,
            end=end,
            summary=self._summed(),
            findings=self._findings,
            is_offset_known=self._is_offset_known,
            is_over=self._is_over,
            epoch=self._chain.epoch if self.summary.epochs else None,
        )

    def join(self, names: Sequence[str], segments: Sequence[CheckedSegment]) -> LogSummary:
        """Put the segments of a whole log together, in their order. Errors: StorageError."""
        by_offset = {checked.base_offset: checked for checked in segments}
        return self._go_through(names, list(by_offset), lambda path, offset: self._adopt(path, by_offset[offset]))

    def _go_through(
        self, names: Sequence[str], base_offsets: Sequence[Offset], take: Callable[[Path, Offset], None]
    ) -> LogSummary:
        paths = self._begin(names, base_offsets)
        for at, (path, base_offset) in enumerate(zip(paths, base_offsets, strict=True), start=1):
            self._later = paths[at:]
            self._begin_segment(path, base_offset)
            if not self._is_over:
                take(path, base_offset)
            if self._is_over:
                break
        else:
            self._check_end()
        return self._summed()

    def _adopt(self, path: Path, checked: CheckedSegment) -> None:
        summary, found = self.summary, checked.summary
        if found.epochs and found.epochs[0].epoch < self._chain.epoch:
            expected, epoch = f"an epoch of at least {self._chain.epoch}", f"epoch {found.epochs[0].epoch}"
            self._report(judge.EpochError(path, position=0, expected=expected, found=epoch), checked.end)
        self._findings.extend(checked.findings)
        if summary.verdict is judge.Verdict.SOUND and found.verdict is not judge.Verdict.SOUND:
            summary.verdict, summary.sound_end_offset = found.verdict, found.sound_end_offset
        for entry in found.epochs:
            if not summary.epochs or summary.epochs[-1].epoch != entry.epoch:
                summary.epochs.append(entry)
        summary.batches_count += found.batches_count
        summary.size_bytes += found.size_bytes
        self._chain.offset = found.end_offset
        if checked.epoch is not None:
            self._chain.epoch = checked.epoch
        self._is_offset_known, self._is_over = checked.is_offset_known, checked.is_over

    def _begin(self, names: Sequence[str], base_offsets: Sequence[Offset]) -> list[Path]:
        self._names = names
        self.summary.segments_count = len(base_offsets)
        if base_offsets:
            self._start_at(base_offsets[0])
        if (start_offset := judge.lost_before(names, base_offsets)) > 0:
            self._findings.add_damage(
                self._directory,
                0,
                expected=f"a snapshot that reaches to offset {start_offset}, where the log starts",
                found="none: the records before are lost",
                advice=judge.MISSING_START_REPAIR,
            )
        return [self._directory / segment_file(base_offset, LOG) for base_offset in base_offsets]

    def _summed(self) -> LogSummary:
        self.summary.end_offset = self._chain.offset
        if self.summary.verdict is judge.Verdict.SOUND:
            self.summary.sound_end_offset = self._chain.offset
        return self.summary

    def _gather_evidence(self) -> judge.Evidence:
        """What the other files say about the log; an unreadable recovery point is damage itself."""
        evidence = read_evidence(self._fs, self._directory, on_bad_point=self._findings.add_error)
        if evidence.recovery_point != judge.NO_ONE_KNOWS:
            self.summary.recovery_point = evidence.recovery_point
        return evidence

    def _start_at(self, offset: Offset) -> None:
        self.summary.start_offset = offset
        self._chain = judge.Chain(self._evidence, offset)

    def _begin_segment(self, path: Path, base_offset: Offset) -> None:
        try:
            self._chain.begin_segment(path, base_offset)
        except CorruptionError as gap:
            if judge.end_of_cleaning(self._names, [(self._chain.offset, base_offset)]):
                self._findings.add_note(
                    path, "is where the log starts: a power loss interrupted a cleaning, which the next start finishes"
                )
                self.summary.epochs.clear()
                self._start_at(base_offset)
            elif self._is_offset_known:
                self._report(gap, 0)
            if not self._is_over:
                self._chain.offset = base_offset
        self._is_offset_known = True

    def _check_segment(self, path: Path, base_offset: Offset, planned_end: int | None = None) -> None:
        with ExitStack() as stack:
            file = stack.enter_context(closing(self._fs.open(path)))
            end = file.size() if planned_end is None else planned_end
            index_path, time_path = path.with_suffix(OFFSET_INDEX), path.with_suffix(TIME_INDEX)
            index = self._open_index(stack, index_path)
            times = self._open_index(stack, time_path)
            segment = SegmentCheck(path, file, end)
            if index is not None:
                segment.index = OffsetIndexCheck(index_path, index, base_offset, self._findings)
            if times is not None:
                segment.times = TimeIndexCheck(time_path, times, base_offset, self._findings)
            self._walk(segment)
            self.summary.size_bytes += end
            if self._is_over:
                return
            # A running node appended during the check, so its indexes may have entries beyond our end.
            is_growing = file.size() > end and (planned_end is not None or not self._later)
            if segment.index is not None:
                segment.index.finish(end, is_growing=is_growing)
            if segment.times is not None:
                segment.times.finish(self._chain.offset, is_growing=is_growing)

    def _open_index(self, stack: ExitStack, path: Path) -> File | None:
        if self._fs.exists(path):
            return stack.enter_context(closing(self._fs.open(path)))
        self._findings.add_note(path, "is missing; the next start writes it")
        return None

    def _walk(self, segment: SegmentCheck) -> None:
        """The hot loop: a run of sound batches costs only a few comparisons of columns."""
        told = 0
        for place in walk_runs(segment.path, segment.file, segment.end):
            if isinstance(place, BadBytes):
                self._bad(segment, place)
            elif not isinstance(place, BatchRun):
                self._see(segment, *place)
            elif self._is_next(place):
                self.summary.batches_count += len(place)
                segment.saw_run(place)
                self._pass_on(segment, place)
            else:
                # The batches are sound, but one of them may be in the wrong place.
                for position, header in place.headers():
                    self._see(segment, position, header)
                    if self._is_over:
                        break
            if self._is_over:
                break
            if segment.seen_until - told >= PROGRESS_SIZE_BYTES:
                self._on_progress(segment.seen_until - told)
                told = segment.seen_until
        self._on_progress(segment.end - told)

    def _is_next(self, run: BatchRun) -> bool:
        """True when nothing about the place and the epoch of these batches needs a closer look."""
        epochs = self.summary.epochs
        is_same_epoch = bool(epochs) and epochs[-1].epoch == run.epoch
        return is_same_epoch and self._is_offset_known and self._chain.check_run(run)

    def _see(self, segment: SegmentCheck, position: int, header: BatchHeader) -> None:
        """One sound batch: it may be in the wrong place."""
        summary, chain = self.summary, self._chain
        if not self._is_offset_known:
            self._find_offset(segment, header)
        try:
            chain.check(segment.path, position, header)
        except CorruptionError as problem:
            self._report(problem, segment.end)
            if self._is_over:
                return
            chain.skip(header)
        else:
            self._pass_on(segment, (position, header))
        if not summary.epochs or summary.epochs[-1].epoch != header.epoch:
            summary.epochs.append(EpochStart(epoch=header.epoch, start_offset=header.base_offset))
        summary.batches_count += 1
        segment.saw(position, header)

    def _pass_on(self, segment: SegmentCheck, placed: Placed) -> None:
        if self._on_batches is not None:
            self._on_batches(segment.file, placed)

    def _bad(self, segment: SegmentCheck, bad: BadBytes) -> None:
        """Bytes that are not a sound batch; the offsets after them may be unknown."""
        self._report(bad.problem, segment.end)
        if self._is_over:
            return
        if segment.index is not None:
            segment.index.skip_to(bad.end)
        if bad.header is not None and self._is_offset_known:
            self._chain.offset = bad.header.end_offset
            if segment.times is not None:
                segment.times.skip_to(bad.header.end_offset)
        else:
            self._is_offset_known = False

    def _find_offset(self, segment: SegmentCheck, header: BatchHeader) -> None:
        """The first sound batch after bad bytes has a known offset again, but there is nothing to compare it with."""
        self._is_offset_known = True
        self._chain.offset = header.base_offset
        if segment.times is not None:
            segment.times.skip_to(header.base_offset)

    def _report(self, problem: CorruptionError, end: int) -> None:
        """Report damage, or the start of what does not count."""
        offset, path, position = self._chain.offset, Path(problem.path), problem.position
        expected = Expected(base_offset=offset, epoch=self._chain.epoch)
        verdict = verdict_on(problem, expected, self._evidence, fs=self._fs, later=self._later)
        self._note_verdict(verdict)
        if verdict is judge.Verdict.TORN:
            self._is_over = True
            self._findings.add_note(
                path,
                f"{end - position} bytes from position {position} (offset {offset}) on do not count: expected "
                f"{problem.expected}, found {problem.found}. They are being written, or a crash tore them; nothing "
                "synced is among them, and the next start cuts them off",
            )
            return
        if isinstance(problem, judge.EpochError):
            # Where the epochs of a range are contradicted, its first batch in each segment is enough.
            told = (path, problem.expected, problem.found)
            if told == self._told:
                return
            self._told = told
        advice = REPAIR if verdict is judge.Verdict.DAMAGED else UNPROVEN_ADVICE
        self._findings.add_damage(path, position, expected=problem.expected, found=problem.found, advice=advice)

    def _note_verdict(self, verdict: judge.Verdict) -> None:
        """Keep the first verdict: it ends the sound prefix."""
        if self.summary.verdict is judge.Verdict.SOUND:
            self.summary.verdict, self.summary.sound_end_offset = verdict, self._chain.offset

    def _check_end(self) -> None:
        """Report synced records that are missing at the end, unless other damage explains it already."""
        end_offset = self._chain.offset
        missing = self._evidence.missing_end(self._directory, 0, end_offset)
        if missing is None or self.summary.verdict is not judge.Verdict.SOUND:
            return
        self._note_verdict(judge.Verdict.DAMAGED)
        self._findings.add_damage(
            self._directory / recovery_point.FILE_NAME,
            0,
            expected=f"a log that reaches to offset {self._evidence.synced_offset}, up to which it was synced once",
            found=f"one that ends at offset {end_offset}",
            advice=REPAIR,
        )

"""Reads a whole log to find its sound prefix, and the damaged ranges after it.

This module reads and writes nothing. `pykraft.log.judge` says what the first problem is; the consequences are here:

- A torn or unproven end: the log ends there, and everything after it (later segments too) is to be removed.
- Damage: it is reported as a range up to the next segment. Nothing is to be removed, and the scan continues with the
  next segment to find all ranges.

`pykraft.log.recovery` opens and repairs a log. Source: Kafka's ``LogLoader.recoverLog``, ``LogSegment.recover``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from pykraft.config import LogSettings
from pykraft.core.epochs import EpochCache
from pykraft.errors import CorruptionError
from pykraft.log.fs import Fs
from pykraft.log.judge import NO_ONE_KNOWS, Chain, Evidence, Verdict
from pykraft.log.paths import LOG, segment_file
from pykraft.log.scan import scan_runs
from pykraft.log.segment import SegmentContent
from pykraft.log.tail import Expected, verdict_on
from pykraft.protocol.batch import IMAGE_BEGIN_BIT, IMAGE_BIT, IMAGE_END_BIT, BatchHeader, BatchRun
from pykraft.types import EPOCH_ZERO, Damage, Offset


@dataclass(slots=True)
class GroupBatches:
    """Where the state of consumer groups is in a log: the first batch of it, and the newest whole image."""

    first_offset: Offset | None = None
    image: tuple[Offset, Offset] | None = None
    """Where it begins and ends (exclusive)."""
    _begun: Offset | None = None

    def add(self, header: BatchHeader) -> None:
        """The next batch in the order of the log."""
        if self.first_offset is None:
            self.first_offset = header.base_offset
        if not header.attributes & IMAGE_BIT:
            self._begun = None
        elif header.attributes & IMAGE_BEGIN_BIT:
            self._begun = header.base_offset
        if self._begun is not None and header.attributes & IMAGE_END_BIT:
            self.image = (self._begun, header.end_offset)
            self._begun = None


@dataclass(slots=True, kw_only=True)
class LogScan:
    """The sound prefix of a log, and why it ended."""

    contents: list[SegmentContent] = field(default_factory=list)
    """Segments of the sound prefix; bytes that do not count may follow the last one."""
    epochs: EpochCache = field(default_factory=EpochCache)
    corrupt: list[Damage] = field(default_factory=list)
    verdict: Verdict = Verdict.SOUND
    """What ends the sound prefix."""
    torn: CorruptionError | None = None
    """Why the sound prefix ends before the files do, unless it is damage."""
    scanned_bytes: int = 0
    control_offsets: list[Offset] = field(default_factory=list)
    """Base offsets of Raft's control batches in the sound prefix."""
    groups: GroupBatches = field(default_factory=GroupBatches)

    @property
    def end_offset(self) -> Offset:
        """Offset after the last sound batch."""
        return self.contents[-1].end_offset


def scan_log(
    fs: Fs, directory: Path, base_offsets: Sequence[Offset], *, config: LogSettings, evidence: Evidence
) -> LogScan:
    """Read the segments with these base offsets (ascending); none means an empty log at 0. Errors: StorageError."""
    scan = LogScan()
    if not base_offsets:
        scan.contents.append(SegmentContent(Offset(0), config))
    paths = [directory / segment_file(base_offset, LOG) for base_offset in base_offsets]
    chain = Chain(evidence, base_offsets[0] if base_offsets else Offset(0))
    ends = [*base_offsets[1:], evidence.synced_offset]
    for path, base_offset, next_base_offset, at in zip(paths, base_offsets, ends, count(1), strict=False):
        judge = _Judge(fs, scan, chain, evidence, later=paths[at:])
        try:
            chain.begin_segment(path, base_offset)
        except CorruptionError as gap:
            if not judge.goes_on(gap, base_offset):
                break
            chain.restart(base_offset)
        content = SegmentContent(base_offset, config)
        problem = _scan_segment(fs, path, content, scan, chain)
        if not scan.corrupt:
            scan.contents.append(content)
        if problem is not None:
            if not judge.goes_on(problem, next_base_offset):
                break
            chain.restart(next_base_offset)
    if not scan.corrupt:
        last = scan.contents[-1]
        path = directory / segment_file(last.base_offset, LOG)
        # Every batch is sound, but synced records may be missing at the end.
        if (missing := evidence.missing_end(path, last.size_bytes, last.end_offset)) is not None:
            _Judge(fs, scan, chain, evidence, later=()).goes_on(missing, evidence.synced_offset)
    return scan


@dataclass(frozen=True, slots=True)
class _Judge:
    """Records the verdicts about one segment and what stands before it."""

    fs: Fs
    scan: LogScan
    chain: Chain
    evidence: Evidence
    later: Sequence[Path]

    def goes_on(self, problem: CorruptionError, end: Offset) -> bool:
        """Record a problem where the chain ends; returns False when the log ends there."""
        scan, start = self.scan, self.chain.offset
        expected = Expected(base_offset=start, epoch=self.chain.epoch)
        verdict = verdict_on(problem, expected, self.evidence, fs=self.fs, later=self.later)
        if not scan.corrupt:
            scan.verdict = verdict
        if verdict is not Verdict.DAMAGED:
            scan.torn = None if scan.corrupt else problem
            return False
        if start >= self.evidence.synced_offset:
            # The recovery point does not reach this far, so the end of the damage is unknown.
            end = NO_ONE_KNOWS
        else:
            end = max(start, min(end, self.evidence.synced_offset))
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


def _scan_segment(fs: Fs, path: Path, content: SegmentContent, scan: LogScan, chain: Chain) -> CorruptionError | None:
    """Fill ``content`` with the sound batches of one segment; returns the problem if they end before the file."""
    is_prefix = not scan.corrupt
    latest = scan.epochs.latest
    epoch = latest.epoch if latest else EPOCH_ZERO
    file = fs.open(path)
    try:
        for place in scan_runs(path, file, 0, file.size()):
            if isinstance(place, BatchRun) and place.epoch == epoch and chain.check_run(place):
                content.add_run(place)
                continue
            for position, header in place.headers() if isinstance(place, BatchRun) else (place,):
                chain.check(path, position, header)
                content.add(header)
                if is_prefix:
                    if header.epoch != epoch:
                        epoch = header.epoch
                        scan.epochs.assign(epoch, header.base_offset)
                    if header.is_group_state:
                        scan.groups.add(header)
                    elif header.is_control:
                        scan.control_offsets.append(header.base_offset)
    except CorruptionError as problem:
        return problem
    finally:
        scan.scanned_bytes += content.size_bytes
        file.close()
    return None

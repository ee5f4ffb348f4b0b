"""Carries out the tasks of an audit: each reads one file and returns what is known about it.

A result has a bounded size, and never the data: findings, digests, what the log says before the end of each snapshot,
the membership records, and, if there is a journal, which records of the workload stand where.

A digest covers an aligned range of offsets, so that replicas are compared without moving their bytes: number *n* covers
the batches that begin at offsets from *n* times its width on. It is the sum of a hash of each batch, modulo 2^128, so
segments may begin anywhere, and two tasks that share a range add their digests. A batch contains its own
offset. Invariant: two replicas with the same digest hold the same bytes, unless 128 bits of BLAKE2 collide.

Source: ours, after the incremental hashes of Bellare and Micciancio (1997).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Final

from pykraft.audit.plan import SegmentTask, SnapshotTask
from pykraft.errors import CorruptionError, ProtocolError
from pykraft.local.journal import RecordSpan, record_spans
from pykraft.log.fs import File, Fs
from pykraft.log.offline.verify_files import check_snapshot
from pykraft.log.offline.verify_findings import Findings
from pykraft.log.offline.verify_log import CheckedSegment, LogCheck, LogSummary, Placed
from pykraft.log.paths import LOG, base_offsets_in, parse_checkpoint, segment_file
from pykraft.log.scan import REPAIR
from pykraft.protocol.batch import BatchRun
from pykraft.protocol.records import membership_records
from pykraft.snapshot.head import SnapshotHead, read_head
from pykraft.types import Buffer, MembershipRecord, Offset

_SIZE_BYTES: Final = 16
_MODULUS: Final = 2 ** (8 * _SIZE_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeDigest:
    """The sound batches of one range; ``end_offset`` is exclusive."""

    number: int
    first_offset: Offset
    end_offset: Offset
    batches_count: int
    size_bytes: int
    total: int

    def plus(self, other: RangeDigest) -> RangeDigest:
        """Both, where two segments share a range."""
        return replace(
            self,
            first_offset=min(self.first_offset, other.first_offset),
            end_offset=max(self.end_offset, other.end_offset),
            batches_count=self.batches_count + other.batches_count,
            size_bytes=self.size_bytes + other.size_bytes,
            total=(self.total + other.total) % _MODULUS,
        )


class Digests:
    """The digests of one segment, while it is read in order."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._by_number: dict[int, RangeDigest] = {}
        self._number = -1
        self._first = self._end = Offset(0)
        self._count = self._size = self._total = 0

    def add(self, content: Buffer, base_offset: Offset, end_offset: Offset) -> None:
        if base_offset // self._width != self._number:
            self._close()
            self._number, self._first = base_offset // self._width, base_offset
        self._end = end_offset
        self._count += 1
        self._size += len(content)
        self._total += int.from_bytes(blake2b(content, digest_size=_SIZE_BYTES).digest())

    def finished(self) -> list[RangeDigest]:
        self._close()
        self._number = -1
        return list(self._by_number.values())

    def _close(self) -> None:
        if self._number < 0:
            return
        one = RangeDigest(
            number=self._number,
            first_offset=self._first,
            end_offset=self._end,
            batches_count=self._count,
            size_bytes=self._size,
            total=self._total % _MODULUS,
        )
        known = self._by_number.get(self._number)
        self._by_number[self._number] = one if known is None else known.plus(one)
        self._count = self._size = self._total = 0


MEMBERSHIP_MAX: Final = 1_024
"""Membership records that a task returns: the newest."""
SPANS_MAX: Final = 65_536
"""Spans of the workload that a task returns; a sound log has one for each claim."""


@dataclass(slots=True, kw_only=True)
class SegmentResult:
    """What one segment holds."""

    checked: CheckedSegment
    digests: list[RangeDigest] = field(default_factory=list)
    timestamps: dict[Offset, int] = field(default_factory=dict)
    """End of a snapshot: timestamp of the batch with the record before it."""
    membership: list[tuple[Offset, MembershipRecord]] = field(default_factory=list)
    spans: list[RecordSpan] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class SnapshotResult:
    """What one snapshot says; ``head`` is None when it is damaged."""

    path: Path
    findings: Findings
    head: SnapshotHead | None


def ignore_progress(size_bytes: int) -> None:
    """Nobody watches a task."""
    del size_bytes


def carry_out(fs: Fs, task: SegmentTask | SnapshotTask) -> SegmentResult | SnapshotResult:
    """The result of a task. Errors: StorageError."""
    if isinstance(task, SnapshotTask):
        return _snapshot(fs, task)
    result = _segment(fs, task)
    if not result.checked.findings.damage_count:
        return result
    # A node that writes meanwhile may have left half an entry of an index: see `pykraft.log.offline.verify`.
    again = _segment(fs, task)
    findings = again.checked.findings.also_in(result.checked.findings)
    return replace(again, checked=replace(again.checked, findings=findings))


def _snapshot(fs: Fs, task: SnapshotTask) -> SnapshotResult:
    findings = Findings()
    check_snapshot(fs, task.path, LogSummary(), findings, ignore_progress)
    name = parse_checkpoint(task.path.name)
    head = None
    if not findings.damage_count and name is not None:
        try:
            _, head = read_head(fs, task.path.parent, name)
        except CorruptionError as error:
            findings.add_error(error)
    return SnapshotResult(path=task.path, findings=findings, head=head)


def _segment(fs: Fs, task: SegmentTask) -> SegmentResult:
    segments = base_offsets_in(fs.listdir(task.partition))
    later = [task.partition / segment_file(base, LOG) for base in segments if base > task.base_offset]
    look = _Look(task)
    check = LogCheck(fs, task.partition, Findings(), on_progress=ignore_progress, on_batches=look.see)
    checked = check.run_segment(task.base_offset, task.size_bytes, later)
    checked.findings.extend(look.findings)
    return SegmentResult(
        checked=checked,
        digests=look.digests.finished(),
        timestamps=look.timestamps,
        membership=list(look.membership),
        spans=look.spans,
    )


class _Look:
    def __init__(self, task: SegmentTask) -> None:
        self._path = task.partition / segment_file(task.base_offset, LOG)
        self._has_journal = task.has_journal
        self._probes = sorted(task.probes)
        self.digests = Digests(task.digest_offsets)
        self.timestamps: dict[Offset, int] = {}
        self.membership: deque[tuple[Offset, MembershipRecord]] = deque(maxlen=MEMBERSHIP_MAX)
        self.spans: list[RecordSpan] = []
        self.findings = Findings()

    def see(self, file: File, placed: Placed) -> None:
        """Take batches that are in the right place."""
        if isinstance(placed, BatchRun):
            base_offset = placed.base_offset
            columns = zip(placed.positions, placed.last_offsets, placed.contents(), placed.max_timestamps, strict=False)
            for position, last_offset, content, timestamp in columns:
                self._take(position, content, base_offset, Offset(last_offset + 1), timestamp)
                base_offset = Offset(last_offset + 1)
            return
        position, header = placed
        batch = file.pread(header.size_bytes, position)
        self._take(position, batch, header.base_offset, header.end_offset, header.max_timestamp)
        if header.is_control:
            self.membership.extend(_membership(batch))

    def _take(self, position: int, content: Buffer, base_offset: Offset, end_offset: Offset, timestamp: int) -> None:
        self.digests.add(content, base_offset, end_offset)
        at = bisect_right(self._probes, base_offset)
        while at < len(self._probes) and self._probes[at] <= end_offset:
            self.timestamps[self._probes[at]] = timestamp
            at += 1
        if self._has_journal:
            self._take_spans(position, content)

    def _take_spans(self, position: int, content: Buffer) -> None:
        try:
            found = list(record_spans(content))
        except ProtocolError as error:
            expected, text = "records of the epoch of their batch", str(error)
            self.findings.add_damage(self._path, position, expected=expected, found=text, advice=REPAIR)
            return
        for span in found:
            last = self.spans[-1] if self.spans else None
            if last is not None and _continues(last, span):
                joined = last.count + span.count
                self.spans[-1] = RecordSpan(
                    claim=last.claim, first_sequence=last.first_sequence, base_offset=last.base_offset, count=joined
                )
            elif len(self.spans) < SPANS_MAX:
                self.spans.append(span)
            else:
                expected = f"at most {SPANS_MAX} runs of consecutive sequences in a segment"
                self.findings.add_damage(self._path, position, expected=expected, found="more", advice=REPAIR)
                self._has_journal = False
                return


def _continues(last: RecordSpan, span: RecordSpan) -> bool:
    is_next = last.end_sequence == span.first_sequence and last.base_offset + last.count == span.base_offset
    return is_next and last.claim == span.claim


def _membership(content: bytes) -> Iterator[tuple[Offset, MembershipRecord]]:
    try:
        yield from membership_records(content)
    except ProtocolError:
        # A control batch that Raft does not know says nothing about members.
        return

"""One log of one replica after its judgment, and the search for acknowledged records in it.

Acknowledgements that continue each other are joined while a journal is read, so the memory depends on the number of
leaders and faults, not of records. Invariant: a record that a log does not have because it begins later or ends earlier
is not that log's fault.

Source: ours; Kafka's ``ProducerStateManager`` names the files that tell how far a log was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pykraft.audit.findings import AuditKind, AuditReport
from pykraft.audit.narrow import batch_before
from pykraft.audit.part import PartResult, RangeDigest
from pykraft.audit.plan import AuditedPartition
from pykraft.errors import ProtocolError, UsageError
from pykraft.local.journal import Acknowledged, RecordSpan, parse_event
from pykraft.log.fs import Fs
from pykraft.log.judge import Verdict
from pykraft.log.offline.verify import PartitionReport
from pykraft.log.offline.verify_log import LogSummary
from pykraft.log.paths import LOG, segment_file, snapshot_ids_in
from pykraft.log.scan import REPAIR
from pykraft.log.small_files import recovery_point
from pykraft.text.words import counted
from pykraft.types import EpochStart, Offset

_PRODUCER_SNAPSHOT: Final = re.compile(r"([0-9]{20})\.snapshot")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedLog:
    """A log, and what the tasks and the judge found; ``end_offset`` is exclusive."""

    replica: str
    path: Path
    segments: Sequence[tuple[Offset, int]]
    start_offset: Offset
    end_offset: Offset
    epochs: Sequence[EpochStart]
    is_sound: bool
    digests: Mapping[int, RangeDigest]
    snapshot_ends: Sequence[Offset]
    summary: LogSummary
    recovery_point: Offset
    """How far our node says that the log was synced once; 0 if it does not."""
    producers_offset: Offset
    """How far the names of Kafka's files say that the log was written once; 0 if there are none."""

    @property
    def missing_end(self) -> tuple[Offset, str] | None:
        """The offset that the log reached once, and the file that says so; None if it does still."""
        said = ((self.recovery_point, recovery_point.FILE_NAME), (self.producers_offset, _producers_file(self)))
        furthest = max(said)
        return furthest if self.segments and self.end_offset < furthest[0] else None

    def segment_of(self, offset: Offset) -> tuple[Path, Offset, int]:
        """The segment that should hold this offset: path, base offset, size in bytes."""
        found = (segment for segment in reversed(self.segments) if segment[0] <= offset)
        base_offset, size_bytes = next(found, self.segments[0] if self.segments else (Offset(0), 0))
        return self.path / segment_file(base_offset, LOG), base_offset, size_bytes


def _producers_file(log: JudgedLog) -> str:
    return f"{log.producers_offset:020d}.snapshot"


def judged(partition: AuditedPartition, report: PartitionReport, results: Sequence[PartResult]) -> JudgedLog:
    """Put together what is known of a log. Digests of parts that share a range are added."""
    digests: dict[int, RangeDigest] = {}
    for one in (digest for result in results for digest in result.digests):
        known = digests.get(one.number)
        digests[one.number] = one if known is None else known.plus(one)
    log = report.log
    snapshots = [found.offset for found in snapshot_ids_in(partition.names)]
    written = [int(match[1]) for match in map(_PRODUCER_SNAPSHOT.fullmatch, partition.names) if match]
    return JudgedLog(
        replica=partition.replica,
        path=partition.path,
        segments=partition.segments,
        start_offset=log.start_offset,
        end_offset=log.end_offset,
        epochs=log.epochs,
        is_sound=log.verdict is Verdict.SOUND,
        digests=digests,
        snapshot_ends=[end for end in snapshots if end <= log.end_offset],
        summary=log,
        recovery_point=log.recovery_point or Offset(0),
        producers_offset=Offset(max(written, default=0)),
    )


def read_acknowledged(paths: Iterable[Path]) -> list[Acknowledged]:
    """What the nodes acknowledged, joined where it continues. Errors: UsageError for a line that is no event."""
    joined: dict[tuple[bytes, int], Acknowledged] = {}
    done: list[Acknowledged] = []
    for path in paths:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    event = parse_event(line)
                except ProtocolError as error:
                    if not line.endswith(b"\n"):
                        continue  # the writer was killed within its last line
                    raise UsageError(f"{path}: line {number}: {error}") from error
                if isinstance(event, Acknowledged):
                    key = event.run, event.epoch
                    last = joined.get(key)
                    if last is None:
                        joined[key] = event
                    elif last.end_sequence == event.first_sequence and last.end_offset == event.base_offset:
                        joined[key] = replace(last, count=last.count + event.count)
                    else:
                        done.append(last)
                        joined[key] = event
    return sorted([*done, *joined.values()], key=lambda one: one.base_offset)


def lost_in(
    acknowledged: Sequence[Acknowledged], spans: Sequence[RecordSpan], start_offset: Offset, end_offset: Offset
) -> Iterator[tuple[Offset, int]]:
    """The first offset of each acknowledged range between these offsets that the spans lack, and how many it has."""
    by_claim: dict[object, list[RecordSpan]] = {}
    for span in spans:
        by_claim.setdefault(span.claim, []).append(span)
    for one in acknowledged:
        at, end = max(one.base_offset, start_offset), min(one.end_offset, end_offset)
        for span in by_claim.get(one.claim, ()):
            if span.shift != one.shift or span.base_offset + span.count <= at:
                continue
            if span.base_offset >= end:
                break
            if span.base_offset > at:
                yield Offset(at), span.base_offset - at
            at = Offset(span.base_offset + span.count)
        if at < end:
            yield Offset(at), end - at


def acknowledged_end(acknowledged: Sequence[Acknowledged]) -> Offset:
    """Everything below this offset was committed."""
    return max((one.end_offset for one in acknowledged), default=Offset(0))


def tell_lost(
    fs: Fs,
    logs: Sequence[JudgedLog],
    spans: Mapping[Path, Sequence[RecordSpan]],
    acknowledged: Sequence[Acknowledged],
    report: AuditReport,
) -> None:
    """Report the acknowledged records that a log lacks between its start and its end, and those above all ends.

    Errors: StorageError.
    """
    report.acknowledged = sum(one.count for one in acknowledged)
    for log in logs:
        for offset, count in lost_in(acknowledged, spans[log.path], log.start_offset, log.end_offset):
            path, base_offset, size_bytes = log.segment_of(offset)
            position, _ = batch_before(fs, log.path, base_offset, offset, size_bytes)
            _lose(report, log, path, position, offset, count)
    # Acknowledged means that a majority had it; above all ends not even one replica has it.
    furthest = max(logs, key=lambda log: log.end_offset)
    own = furthest.end_offset
    count = sum(max(0, one.end_offset - max(own, one.base_offset)) for one in acknowledged)
    if count:
        path, _, size_bytes = furthest.segment_of(own)
        _lose(report, furthest, path, size_bytes, own, count)


def _lose(report: AuditReport, log: JudgedLog, path: Path, position: int, offset: Offset, count: int) -> None:
    report.add(
        AuditKind.LOST,
        log.replica,
        path,
        position,
        expected=f"{counted(count, 'acknowledged record')} from offset {offset} on",
        found="not those records",
        advice=REPAIR,
    )

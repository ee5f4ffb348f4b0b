"""One audit: which tasks it needs, and what their results say about each replica and about all of them.

`DirectoryAudit.tasks` check each segment of each log, and each snapshot; they may run anywhere, in any order. With
their results, `DirectoryAudit.narrowed` judges each replica as `pykraft verify` does, and returns tasks that find the
first byte where two replicas differ. With their results, `DirectoryAudit.report` says what differs, and looks for
acknowledged records. Invariant: whoever holds an audit holds digests and findings, never the data, and reads small
files only. Its replicas may be running: what a node writes meanwhile is no damage.

Logs are compared by their digests. Where a range of offsets has other digests, `pykraft.audit.narrow` finds the first
byte. By Raft's Log Matching, two logs with a batch of the same epoch at one offset are equal up to there. So a
difference is damage if

1. the batches at this offset have the same epoch, or one of them is not sound;
2. a later offset has the same epoch in both logs; or
3. the offset is committed: below the end of a snapshot, or of an acknowledged record.

Otherwise a log has records that a later leader replaced, and that were never committed: it will truncate them.

The reference is the log with which most others agree. Each snapshot is compared with the log that it replaces, where
that still exists: the epoch in its name, the timestamp in its header, its voters and its kraft.version.

Acknowledgements that continue each other are joined while a journal is read, so the memory depends on the number of
leaders and faults, not of records. A record that a log does not have because it begins later or ends earlier is not
that log's fault.

Source: ours; KIP-595, KIP-630, KIP-853; Raft §5.3; Kafka's ``RecordsSnapshotWriter`` and ``LeaderEpochFileCache`` write
the files, and its ``ProducerStateManager`` names those that tell how far a log was written.
"""

import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeAlias

from pykraft.audit import plan
from pykraft.audit.findings import AuditedLog, AuditKind, AuditReport
from pykraft.audit.narrow import ByteDifference, NarrowTask, batch_before, first_difference
from pykraft.audit.segment import RangeDigest, SegmentResult, SnapshotResult, carry_out, ignore_progress
from pykraft.core.epochs import epoch_at
from pykraft.errors import ProtocolError, UsageError
from pykraft.local.journal import Acknowledged, RecordSpan, parse_event
from pykraft.log.fs import Fs
from pykraft.log.judge import Verdict
from pykraft.log.offline.verify import PartitionReport, Reading, verify_with
from pykraft.log.offline.verify_files import SNAPSHOT_ADVICE, check_epochs, check_snapshot_epoch
from pykraft.log.offline.verify_findings import Findings
from pykraft.log.offline.verify_index import ADVICE as INDEX_ADVICE
from pykraft.log.offline.verify_log import LogCheck, LogSummary
from pykraft.log.paths import LOG, parse_checkpoint, segment_file, snapshot_ids_in
from pykraft.log.scan import REPAIR
from pykraft.log.small_files import epoch_checkpoint, recovery_point
from pykraft.object_storage.files import Files
from pykraft.process.workers import call_in_workers
from pykraft.snapshot.head import SnapshotHead
from pykraft.text.words import counted
from pykraft.types import EpochStart, KRaftVersion, KRaftVoters, MembershipRecord, Offset

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


def judged(partition: plan.AuditedPartition, report: PartitionReport, results: Sequence[SegmentResult]) -> JudgedLog:
    """Put together what is known of a log. Digests of segments that share a range are added."""
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


def report_lost(
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


EPOCHS_SHOWN: Final = 4


def report_missing_end(log: JudgedLog, report: AuditReport) -> None:
    """Report a log that lost its end without a trace in its batches.

    Our node notes how far it synced. Kafka writes a file where a segment ends and where a node stops, and removes it
    when the log is truncated.
    """
    if (missing := log.missing_end) is not None:
        path, _, size_bytes = log.segment_of(log.end_offset)
        report.add(
            AuditKind.DAMAGED,
            log.replica,
            path,
            size_bytes,
            expected=f"offset {missing[0]}, which the log once reached, as {missing[1]} says",
            found=f"the end of the log at offset {log.end_offset}",
            advice=REPAIR,
        )


def blame_checkpoint(fs: Fs, log: JudgedLog, report: AuditReport) -> None:
    """A log that contradicts its epoch checkpoint has the bytes of another replica: then the checkpoint is wrong.

    Errors: StorageError.
    """
    findings = Findings()
    check_epochs(fs, log.path, log.summary, log.snapshot_ends, findings)
    if findings.notes and fs.exists(path := log.path / epoch_checkpoint.FILE_NAME):
        # It may be behind the log where nothing contradicts it; but here it does.
        listed = epoch_checkpoint.read_epochs(fs, path)
        position = epoch_checkpoint.position_of(listed, log.epochs)
        findings.add_damage(path, position, expected=_shown(log.epochs), found=_shown(listed), advice=INDEX_ADVICE)
    report.add_damage(log.replica, findings)


def _shown(epochs: Sequence[EpochStart]) -> str:
    return ", ".join(f"epoch {entry.epoch} from offset {entry.start_offset} on" for entry in epochs[-EPOCHS_SHOWN:])


class JoinedReading(Reading):
    """What the tasks have read."""

    def __init__(
        self, fs: Fs, segments: Mapping[Path, Sequence[SegmentResult]], snapshots: Mapping[Path, SnapshotResult]
    ) -> None:
        super().__init__(fs, ignore_progress)
        self._segments = segments
        self._snapshots = snapshots

    def log(
        self, directory: Path, names: Sequence[str], base_offsets: Sequence[Offset], findings: Findings
    ) -> LogSummary:
        """Put the segments together; those that are newer than the plan are not looked at."""
        del base_offsets
        check = LogCheck(self.fs, directory, findings, on_progress=ignore_progress)
        return check.join(names, [segment.checked for segment in self._segments.get(directory, ())])

    def snapshot(self, path: Path, log: LogSummary, findings: Findings) -> None:
        """Report what the task found, and compare the snapshot with the log."""
        result = self._snapshots.get(path)
        if result is None:
            # The bootstrap snapshot, or one that is newer than the plan: both are small or rare.
            super().snapshot(path, log, findings)
            return
        findings.extend(result.findings)
        check_snapshot_epoch(path, log, findings)
        name = parse_checkpoint(path.name)
        # A log that lost batches says nothing about a snapshot.
        is_there = name is not None and log.is_sound and log.start_offset < name.offset <= log.end_offset
        if result.head is not None and name is not None and is_there:
            self._compare(path, name.offset, result.head, findings)

    def _compare(self, path: Path, offset: Offset, head: SnapshotHead, findings: Findings) -> None:
        segments = self._segments.get(path.parent, ())
        timestamp = next((each.timestamps[offset] for each in segments if offset in each.timestamps), None)
        if timestamp not in (None, head.last_contained_log_timestamp):
            expected = f"timestamp {timestamp} of offset {offset - 1} in the log"
            found = f"{head.last_contained_log_timestamp} in the SnapshotHeader"
            findings.add_damage(path, 0, expected=expected, found=found, advice=SNAPSHOT_ADVICE)
        voters: MembershipRecord | None = None
        level: MembershipRecord | None = None
        for at, record in ((at, record) for segment in segments for at, record in segment.membership):
            if at < offset:
                level = record if isinstance(record, KRaftVersion) else level
                voters = record if isinstance(record, KRaftVoters) else voters
        said: dict[type, MembershipRecord] = {type(record): record for record in head.membership}
        for wanted in filter(None, (level, voters)):
            if said.get(type(wanted)) != wanted:
                expected = f"the {type(wanted).__name__} record of the log before offset {offset}: {wanted}"
                found = str(said.get(type(wanted), "none"))
                findings.add_damage(path, 0, expected=expected, found=found, advice=SNAPSHOT_ADVICE)


NARROWED_MAX: Final = 64
"""Ranges of one replica in which the first byte is looked for: the first ones."""
DIFFERS_ADVICE: Final = (
    "if the other replicas agree, stop this one, keep a copy of its directory, and let it fetch the log from the leader"
)


def narrow_tasks(logs: Sequence[JudgedLog], width: int) -> list[NarrowTask]:
    """The pairs of logs that differ in a range of this width, at most NARROWED_MAX ranges of a log."""
    narrowed: Counter[Path] = Counter()
    tasks: list[NarrowTask] = []
    for number in sorted({number for log in logs for number in log.digests}):
        start, end = Offset(number * width), Offset((number + 1) * width)
        here = [log for log in logs if log.start_offset < end and log.end_offset > start]
        votes = Counter(log.digests.get(number) for log in here)
        if len(votes) == 1:
            continue
        known = [log for log in here if number in log.digests]
        reference = max(known, key=lambda log: (votes[log.digests[number]], log.is_sound, log.end_offset))
        for other in here:
            if other.digests.get(number) != reference.digests[number] and narrowed[other.path] < NARROWED_MAX:
                narrowed[other.path] += 1
                first = Offset(max(start, other.start_offset, reference.start_offset))
                tasks.append(NarrowTask(reference=reference.path, other=other.path, start_offset=first, end_offset=end))
    return tasks


def is_damage(found: ByteDifference, other: JudgedLog, reference: JudgedLog, committed: Offset) -> bool:
    """Whether a difference is more than records that were never committed; the module has the three rules."""
    # 1. The same epoch, or no sound batch.
    if found.epoch is None or found.epoch == found.reference_epoch:
        return True
    # 3. Committed.
    if found.offset < committed:
        return True
    # 2. The same epoch later on. It is enough to look where an epoch of either log begins.
    end = min(other.end_offset, reference.end_offset)
    starts = {found.offset, *(entry.start_offset for entry in (*other.epochs, *reference.epochs))}
    later = [offset for offset in starts if found.offset <= offset < end]
    return any(epoch_at(other.epochs, offset) == epoch_at(reference.epochs, offset) for offset in later)


def report_differences(
    logs: Sequence[JudgedLog],
    pairs: Sequence[tuple[NarrowTask, ByteDifference]],
    acknowledged_end: Offset,
    report: AuditReport,
) -> None:
    """Report what the tasks found; ``acknowledged_end`` is the offset after the last acknowledged record."""
    by_path = {log.path: log for log in logs}
    committed = max([acknowledged_end, *(end for log in logs for end in log.snapshot_ends)])
    at_place = Counter((found.reference_path, found.reference_position) for _, found in pairs)
    told: set[tuple[Path, int]] = set()
    over: set[Path] = set()
    for task, found in sorted(pairs, key=lambda pair: pair[1].offset):
        other, reference = by_path[task.other], by_path[task.reference]
        place, place_there = (found.path, found.position), (found.reference_path, found.reference_position)
        here = sum(log.start_offset <= found.offset < log.end_offset for log in logs)
        if found.epoch is not None and at_place[place_there] > here - at_place[place_there]:
            # More logs differ from the reference than agree with it: the reference itself is alone.
            other, reference, place, place_there = reference, other, place_there, place
        if place in told or other.path in over:
            continue
        told.add(place)
        beside = f"{reference.replica} at byte {place_there[1]} of {place_there[0].name}"
        if is_damage(found, other, reference, committed):
            report.add(
                AuditKind.DIFFERS,
                other.replica,
                *place,
                expected=f"what {beside} has, in the batch at offset {found.offset}",
                found="other bytes",
                advice=DIFFERS_ADVICE,
            )
            continue
        # The rest of this log differs as well, and for the same reason.
        over.add(other.path)
        text = (
            f"from byte {place[1]} (offset {found.offset}) on, the log differs from {beside}, with epochs "
            f"{found.epoch} and {found.reference_epoch}: one of them has uncommitted records of an older leader, which "
            "it truncates at its next fetch"
        )
        report.add_note(other.replica, place[0], text)


def report_ends(logs: Sequence[JudgedLog], report: AuditReport) -> None:
    """Say which logs end before the furthest one: such a replica is only behind."""
    furthest = max(logs, key=lambda log: log.end_offset)
    for log in logs:
        if log.end_offset < furthest.end_offset:
            behind = counted(furthest.end_offset - log.end_offset, "record")
            text = f"ends at offset {log.end_offset}, {behind} before {furthest.replica}"
            report.add_note(log.replica, log.path, text)


AuditTask: TypeAlias = plan.SegmentTask | plan.SnapshotTask | NarrowTask
AuditResult: TypeAlias = SegmentResult | SnapshotResult | ByteDifference | None
RunTasks: TypeAlias = Callable[[Sequence[AuditTask]], Sequence[AuditResult]]
"""Carries out tasks; the results are in their order. Errors: StorageError."""


def run_task(fs: Fs, task: AuditTask) -> AuditResult:
    """Carry out one task. Errors: StorageError."""
    return first_difference(fs, task) if isinstance(task, NarrowTask) else carry_out(fs, task)


ONE_PROCESS_SIZE_BYTES_MAX: Final = 128 * 1024 * 1024
"""So much is read before worker processes, which take half a second to start, would be quicker."""


def run_here(tasks: Sequence[AuditTask]) -> list[AuditResult]:
    """Carry out tasks on this machine: in a process for each core if they read much. Errors: StorageError."""
    run = partial(run_task, Files())
    size_bytes = sum(task.size_bytes for task in tasks if isinstance(task, plan.SegmentTask))
    if size_bytes <= ONE_PROCESS_SIZE_BYTES_MAX:
        return list(map(run, tasks))
    return list(call_in_workers(run, tasks, workers=min(len(tasks), os.cpu_count() or 1)))


class DirectoryAudit:
    """An audit of some directories, one for each replica; call `tasks`, `narrowed` and `report` in this order."""

    def __init__(
        self, fs: Fs, directories: Sequence[Path], *, acknowledged: Sequence[Acknowledged] | None = None
    ) -> None:
        """List the directories. Errors: see `pykraft.audit.plan.replicas_of`."""
        self._directories = directories
        self._acknowledged = acknowledged
        self._report = AuditReport()
        self._fs, self._groups = plan.replicas_of(fs, directories)
        self._widths = {name: plan.digest_offsets(fs, group) for name, group in self._groups.items()}
        self._logs: dict[str, list[JudgedLog]] = {}
        self._results: dict[Path, list[SegmentResult]] = defaultdict(list)
        self._narrowed: dict[str, list[NarrowTask]] = {}

    @property
    def size_bytes(self) -> int:
        return sum(one.size_bytes for group in self._groups.values() for one in group)

    def tasks(self) -> list[AuditTask]:
        """What is to be read, in an order that `narrowed` knows."""
        return [task for name, group in self._groups.items() for one in group for task in self._tasks_of(name, one)]

    def _tasks_of(self, name: str, partition: plan.AuditedPartition) -> Iterable[plan.SegmentTask | plan.SnapshotTask]:
        return plan.tasks_of(partition, offsets_a_digest=self._widths[name], has_journal=bool(self._acknowledged))

    def narrowed(self, results: Iterable[AuditResult]) -> list[AuditTask]:
        """Judge each replica with the results of `tasks`, in their order; what is to be compared byte by byte."""
        waiting = iter(results)
        snapshots: dict[Path, SnapshotResult] = {}
        for name, group in self._groups.items():
            for partition in group:
                for _ in self._tasks_of(name, partition):
                    match next(waiting):
                        case SegmentResult() as segment:
                            self._results[partition.path].append(segment)
                        case SnapshotResult() as snapshot:
                            snapshots[snapshot.path] = snapshot
        reading = JoinedReading(self._fs, self._results, snapshots)
        found = {path: log for directory in self._directories for path, log in self._judge(directory, reading).items()}
        for name, group in self._groups.items():
            self._logs[name] = [found[partition.path] for partition in group]
            self._narrowed[name] = narrow_tasks(self._logs[name], self._widths[name])
        return [task for tasks in self._narrowed.values() for task in tasks]

    def _judge(self, directory: Path, reading: JoinedReading) -> Mapping[Path, JudgedLog]:
        found = verify_with(reading, directory)
        report, replica = self._report, str(directory)
        report.add_damage(replica, found.findings)
        for note in found.findings.notes:
            report.add_note(replica, note.path, note.text)
        report.notes_count += found.findings.notes_count - len(found.findings.notes)
        reports = {one.path: one for one in found.partitions}
        logs: dict[Path, JudgedLog] = {}
        for partition in (one for group in self._groups.values() for one in group if one.replica == replica):
            path = partition.path
            logs[path] = log = judged(partition, reports[path], self._results[path])
            summary = reports[path].log
            report.logs.append(
                AuditedLog(
                    replica=replica,
                    path=path,
                    start_offset=log.start_offset,
                    end_offset=log.end_offset,
                    epochs_count=len(log.epochs),
                    segments_count=summary.segments_count,
                    batches_count=summary.batches_count,
                    size_bytes=summary.size_bytes,
                    snapshots_count=sum(name.endswith(".checkpoint") for name in partition.names),
                )
            )
            report_missing_end(log, self._report)
        return logs

    def report(self, differences: Iterable[AuditResult]) -> AuditReport:
        """All that was found, with the results of the tasks that `narrowed` returned, in their order."""
        waiting = iter(differences)
        said = self._acknowledged or ()
        end = acknowledged_end(said)
        for name, logs in self._logs.items():
            results = [(task, next(waiting)) for task in self._narrowed[name]]
            pairs = [(task, found) for task, found in results if isinstance(found, ByteDifference)]
            report_differences(logs, pairs, end, self._report)
            compared = {task.other for task in self._narrowed[name]} - {task.other for task, _ in pairs}
            for log in logs:
                if not log.is_sound and log.path in compared:
                    blame_checkpoint(self._fs, log, self._report)
            report_ends(logs, self._report)
            if len(logs) == 1 and len(self._directories) > 1:
                self._report.add_note(
                    logs[0].replica, logs[0].path, "is in no other directory: nothing to compare with"
                )
            spans = {log.path: [span for segment in self._results[log.path] for span in segment.spans] for log in logs}
            # The journal is that of the only log, or of the one in which the workload wrote.
            if said and (len(self._logs) == 1 or any(spans.values())):
                report_lost(self._fs, logs, spans, said, self._report)
        return self._report


def run_audits(audits: Sequence[DirectoryAudit], run: RunTasks) -> list[AuditReport]:
    """The reports of some audits; ``run`` carries out the tasks of all of them, twice."""
    found = _in_turn([audit.tasks() for audit in audits], run)
    differences = _in_turn([audit.narrowed(own) for audit, own in zip(audits, found, strict=True)], run)
    return [audit.report(own) for audit, own in zip(audits, differences, strict=True)]


def _in_turn(tasks: Sequence[Sequence[AuditTask]], run: RunTasks) -> list[Sequence[AuditResult]]:
    flat = [task for own in tasks for task in own]
    results = run(flat) if flat else []
    ends = [0]
    for own in tasks:
        ends.append(ends[-1] + len(own))
    return [results[start:end] for start, end in pairwise(ends)]

"""One audit: which tasks it needs, and what their results say about each replica and about all of them.

`DirectoryAudit.tasks` check each part of each log, and each snapshot; they may run anywhere, in any order. With their
results, `DirectoryAudit.narrowed` judges each replica as `pykraft verify` does, whose reading of the large files is
done already, and returns tasks that find the first byte where two replicas differ. With their results,
`DirectoryAudit.report` says what differs, and looks for acknowledged records.

Invariant: whoever holds an audit holds digests and findings, never the data, and reads small files only. Its replicas
may be running: what a node writes meanwhile is no damage.

Source: ours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from pykraft.audit.compare import narrow_tasks, tell_differences, tell_ends
from pykraft.audit.directories import replicas_of
from pykraft.audit.findings import AuditedLog, AuditKind, AuditReport
from pykraft.audit.joined import JoinedReading
from pykraft.audit.journals import acknowledged_end, tell_lost
from pykraft.audit.judged import JudgedLog, judged
from pykraft.audit.narrow import ByteDifference, NarrowTask, first_difference
from pykraft.audit.part import PartResult, SnapshotResult, carry_out
from pykraft.audit.plan import (
    PART_SIZE_BYTES,
    AuditedPartition,
    PartTask,
    SnapshotTask,
    digest_offsets,
    tasks_of,
)
from pykraft.audit.replica_checks import blame_checkpoint, tell_missing_end
from pykraft.client.journal import Acknowledged
from pykraft.log.fs import Fs

AuditTask: TypeAlias = PartTask | SnapshotTask | NarrowTask
AuditResult: TypeAlias = PartResult | SnapshotResult | ByteDifference | None


def run_task(fs: Fs, task: AuditTask) -> AuditResult:
    """Carry out one task. Errors: StorageError."""
    return first_difference(fs, task) if isinstance(task, NarrowTask) else carry_out(fs, task)


class DirectoryAudit:
    """An audit of some directories, one for each replica; call `tasks`, `narrowed` and `report` in this order."""

    def __init__(
        self,
        fs: Fs,
        directories: Sequence[Path],
        *,
        acknowledged: Sequence[Acknowledged] | None = None,
        part_size_bytes: int = PART_SIZE_BYTES,
    ) -> None:
        """List the directories. Errors: see `pykraft.audit.directories.replicas_of`."""
        self._directories = directories
        self._acknowledged = acknowledged
        self._part_size_bytes = part_size_bytes
        self._report = AuditReport()
        self._fs, self._groups = replicas_of(fs, directories)
        self._widths = {name: digest_offsets(fs, group) for name, group in self._groups.items()}
        self._logs: dict[str, list[JudgedLog]] = {}
        self._results: dict[Path, list[PartResult]] = defaultdict(list)
        self._narrowed: dict[str, list[NarrowTask]] = {}

    @property
    def size_bytes(self) -> int:
        """Bytes of all logs."""
        return sum(one.size_bytes for group in self._groups.values() for one in group)

    def tasks(self) -> list[AuditTask]:
        """What is to be read, in an order that `narrowed` knows."""
        return [task for name, group in self._groups.items() for one in group for task in self._tasks_of(name, one)]

    def _tasks_of(self, name: str, partition: AuditedPartition) -> Iterable[PartTask | SnapshotTask]:
        return tasks_of(
            partition,
            part_size_bytes=self._part_size_bytes,
            offsets_a_digest=self._widths[name],
            has_journal=bool(self._acknowledged),
        )

    def narrowed(self, results: Iterable[AuditResult]) -> list[AuditTask]:
        """Judge each replica with the results of `tasks`, in their order; what is to be compared byte by byte."""
        waiting = iter(results)
        snapshots: dict[Path, SnapshotResult] = {}
        for name, group in self._groups.items():
            for partition in group:
                for _ in self._tasks_of(name, partition):
                    match next(waiting):
                        case PartResult() as part:
                            self._results[partition.path].append(part)
                        case SnapshotResult() as snapshot:
                            snapshots[snapshot.path] = snapshot
                        case _:
                            pass  # the part before it has read these bytes
        reading = JoinedReading(self._fs, self._results, snapshots)
        found = {path: log for directory in self._directories for path, log in self._judge(directory, reading).items()}
        for name, group in self._groups.items():
            self._logs[name] = [found[partition.path] for partition in group]
            self._narrowed[name] = narrow_tasks(self._logs[name], self._widths[name])
        return [task for tasks in self._narrowed.values() for task in tasks]

    def _judge(self, directory: Path, reading: JoinedReading) -> Mapping[Path, JudgedLog]:
        found = reading.verify(directory)
        report, replica = self._report, str(directory)
        for one in found.findings.damage:
            report.add(
                AuditKind.DAMAGED,
                replica,
                one.path,
                one.position,
                expected=one.expected,
                found=one.found,
                advice=one.advice,
            )
        report.damage_count += found.findings.damage_count - len(found.findings.damage)
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
            tell_missing_end(log, self._report)
        return logs

    def report(self, differences: Iterable[AuditResult]) -> AuditReport:
        """All that was found, with the results of the tasks that `narrowed` returned, in their order."""
        waiting = iter(differences)
        said = self._acknowledged or ()
        end = acknowledged_end(said)
        for name, logs in self._logs.items():
            results = [(task, next(waiting)) for task in self._narrowed[name]]
            pairs = [(task, found) for task, found in results if isinstance(found, ByteDifference)]
            tell_differences(logs, pairs, end, self._report)
            compared = {task.other for task in self._narrowed[name]} - {task.other for task, _ in pairs}
            for log in logs:
                if not log.is_sound and log.path in compared:
                    blame_checkpoint(self._fs, log, self._report)
            tell_ends(logs, self._report)
            if len(logs) == 1 and len(self._directories) > 1:
                self._report.add_note(
                    logs[0].replica, logs[0].path, "is in no other directory: nothing to compare with"
                )
            spans = {log.path: [span for part in self._results[log.path] for span in part.spans] for log in logs}
            # The journal is that of the only log, or of the one in which the workload wrote.
            if said and (len(self._logs) == 1 or any(spans.values())):
                tell_lost(self._fs, logs, spans, said, self._report)
        return self._report


def run_audits(
    audits: Sequence[DirectoryAudit], run: Callable[[Sequence[AuditTask]], Sequence[AuditResult]]
) -> list[AuditReport]:
    """The reports of some audits; ``run`` carries out the tasks of all of them, twice."""
    found = _in_turn([audit.tasks() for audit in audits], run)
    differences = _in_turn([audit.narrowed(own) for audit, own in zip(audits, found, strict=True)], run)
    return [audit.report(own) for audit, own in zip(audits, differences, strict=True)]


def _in_turn(
    tasks: Sequence[Sequence[AuditTask]], run: Callable[[Sequence[AuditTask]], Sequence[AuditResult]]
) -> list[Sequence[AuditResult]]:
    """The results for each of these, from one run."""
    flat = [task for own in tasks for task in own]
    results = run(flat) if flat else []
    ends = [0]
    for own in tasks:
        ends.append(ends[-1] + len(own))
    return [results[start:end] for start, end in pairwise(ends)]

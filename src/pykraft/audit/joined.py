"""Gives `pykraft verify` the logs and snapshots of a directory that the tasks of an audit have read.

It also compares each snapshot with the log that it replaces, where that still exists: the epoch in its name, the
timestamp in its header, its voters and its kraft.version.

Source: KIP-630, KIP-853; Kafka's ``RecordsSnapshotWriter``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pykraft.audit.part import PartResult, SnapshotResult, ignore_progress
from pykraft.log.fs import Fs
from pykraft.log.offline.verify import VerifyReport, verify
from pykraft.log.offline.verify_files import SNAPSHOT_ADVICE, check_snapshot, check_snapshot_epoch
from pykraft.log.offline.verify_findings import Findings
from pykraft.log.offline.verify_log import LogCheck
from pykraft.log.offline.verify_parts import LogSummary
from pykraft.log.paths import parse_checkpoint
from pykraft.snapshot.head import SnapshotHead
from pykraft.types import KRaftVersion, KRaftVoters, MembershipRecord, Offset


class JoinedReading:
    """What the tasks have read; see `pykraft.log.offline.verify.Reading`."""

    def __init__(
        self, fs: Fs, parts: Mapping[Path, Sequence[PartResult]], snapshots: Mapping[Path, SnapshotResult]
    ) -> None:
        self._fs = fs
        self._parts = parts
        self._snapshots = snapshots

    def verify(self, directory: Path) -> VerifyReport:
        """Judge a directory as ``pykraft verify`` does. Errors: StorageError; UsageError."""
        return verify(self._fs, directory, on_progress=ignore_progress, reading=self)

    def log(
        self, directory: Path, names: Sequence[str], base_offsets: Sequence[Offset], findings: Findings
    ) -> LogSummary:
        """Put the parts together; segments that are newer than the plan are not looked at."""
        del base_offsets
        check = LogCheck(self._fs, directory, findings, on_progress=ignore_progress)
        return check.join(names, [part.checked for part in self._parts.get(directory, ())])

    def snapshot(self, path: Path, log: LogSummary, findings: Findings) -> None:
        """Report what the task found, and compare the snapshot with the log."""
        result = self._snapshots.get(path)
        if result is None:
            # The bootstrap snapshot, or one that is newer than the plan: both are small or rare.
            check_snapshot(self._fs, path, log, findings, ignore_progress)
            return
        findings.extend(result.findings)
        check_snapshot_epoch(path, log, findings)
        name = parse_checkpoint(path.name)
        # A log that lost batches says nothing about a snapshot.
        is_there = name is not None and log.is_sound and log.start_offset < name.offset <= log.end_offset
        if result.head is not None and name is not None and is_there:
            self._compare(path, name.offset, result.head, findings)

    def _compare(self, path: Path, offset: Offset, head: SnapshotHead, findings: Findings) -> None:
        parts = self._parts.get(path.parent, ())
        timestamp = next((part.timestamps[offset] for part in parts if offset in part.timestamps), None)
        if timestamp not in (None, head.last_contained_log_timestamp):
            expected = f"timestamp {timestamp} of offset {offset - 1} in the log"
            found = f"{head.last_contained_log_timestamp} in the SnapshotHeader"
            findings.add_damage(path, 0, expected=expected, found=found, advice=SNAPSHOT_ADVICE)
        voters: MembershipRecord | None = None
        level: MembershipRecord | None = None
        for at, record in ((at, record) for part in parts for at, record in part.membership):
            if at < offset:
                level = record if isinstance(record, KRaftVersion) else level
                voters = record if isinstance(record, KRaftVoters) else voters
        said: dict[type, MembershipRecord] = {type(record): record for record in head.membership}
        for wanted in filter(None, (level, voters)):
            if said.get(type(wanted)) != wanted:
                expected = f"the {type(wanted).__name__} record of the log before offset {offset}: {wanted}"
                found = str(said.get(type(wanted), "none"))
                findings.add_damage(path, 0, expected=expected, found=found, advice=SNAPSHOT_ADVICE)

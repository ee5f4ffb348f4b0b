"""Checks that everything in a data directory is what was once written, without changing anything.

A *log directory* (an entry of ``log.dirs``) holds ``meta.properties`` and partition directories. Only partitions of
Raft are checked, since other topics may have been compacted and have gaps. A *partition directory* holds the log
(`verify_log`), small files and snapshots (`verify_files`).

A running node does not notice the check, but may write meanwhile, and a read may see half of a write, of any file. So
damage is what two looks, one after the other, both find. The node may also truncate its log. That happens only in a new
epoch, so if the epochs or segments changed during the check, it runs again.

What to do about damage depends on whether the node is the only voter, which has nobody to fetch from: ``quorum-state``
says so where it names the voters (data version 0), else the newest readable voter set in the log or in a snapshot.
Invariant: no advice for an only voter empties its directory, since that deletes every record of the quorum.

Source: ours; KIP-595 (the voters in ``quorum-state``), KIP-853 (those in the log).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from pykraft.config import METADATA_TOPIC_NAME, TEST_TOPIC_NAME
from pykraft.errors import PykraftError, StorageError, UsageError
from pykraft.log.fs import Fs
from pykraft.log.judge import MISSING_START_REPAIR, SWAP_REPAIR
from pykraft.log.offline.verify_files import (
    SNAPSHOT_ADVICE,
    check_by_dump,
    check_election,
    check_epochs,
    check_odd_name,
    check_snapshot,
)
from pykraft.log.offline.verify_findings import Findings
from pykraft.log.offline.verify_log import LogCheck, LogSummary
from pykraft.log.paths import LOG, base_offsets_in, parse_checkpoint, parse_segment_file, segment_file, snapshot_ids_in
from pykraft.log.scan import REPAIR
from pykraft.log.small_files import epoch_checkpoint, meta, proof_file, quarantine_file, quorum_state, recovery_point
from pykraft.log.walk import BadBytes, walk_runs
from pykraft.protocol.batch import BatchRun
from pykraft.protocol.records import membership_records
from pykraft.text.words import counted
from pykraft.types import KRaftVoters, NodeId, Offset

_KEEP: Final = "this node is the only voter, so no other one has what is lost here. Do not empty the directory"
_GIVE_UP: Final = (
    "To give up everything from the damage on instead, stop the node, cut this file at the position, and remove the "
    "later segments and recovery-point, quarantine, quorum-state.check, and replica-proof beside meta.properties"
)
OF_AN_ONLY_VOTER: Final = {
    REPAIR: (
        f"{_KEEP}: that deletes every record. Stop the node, copy the directory, check the disk, and restore the file "
        f"from a backup or from an observer, whose segments have the same bytes. {_GIVE_UP}"
    ),
    MISSING_START_REPAIR: (
        f"{_KEEP}: restore the missing segments, or a snapshot that reaches the log start, from a backup or an observer"
    ),
    SWAP_REPAIR: f"{_KEEP}: copy it, and start Kafka once on this directory",
    SNAPSHOT_ADVICE: f"{_KEEP}: restore the snapshot of this name, or a later one, from a backup or an observer",
    quorum_state.REPAIR_FILE: (
        f"{_KEEP}: restore quorum-state from a backup, or from the newest copy in {quorum_state.CHECK_NAME}"
    ),
}
"""The advice for a node of a quorum with others, and the one for an only voter."""


def advise(fs: Fs, directory: Path, findings: Findings) -> None:
    """Replace the advice in the findings of a partition if its node is the only voter."""
    if any(one.advice in OF_AN_ONLY_VOTER for one in findings.damage) and is_only_voter(fs, directory):
        findings.damage[:] = [
            replace(one, advice=OF_AN_ONLY_VOTER.get(one.advice, one.advice)) for one in findings.damage
        ]


def is_only_voter(fs: Fs, directory: Path) -> bool:
    """True if the files say so; false if they name other voters, or cannot be read. Errors: StorageError."""
    voters = _voters(fs, directory)
    if len(voters) != 1:
        return False
    try:
        path = directory.parent / meta.FILE_NAME
        return meta.parse_meta(path, fs.read(path)).node_id in voters
    except PykraftError:
        # Without an id it may be an observer; but advice that is too careful loses nothing.
        return True


def _voters(fs: Fs, directory: Path) -> Sequence[NodeId]:
    path = directory / quorum_state.FILE_NAME
    try:
        stored = quorum_state.parse_quorum_state(path, fs.read(path)).voters
    except PykraftError:
        stored = ()
    return stored or next(_voter_sets(fs, directory), ())


def _voter_sets(fs: Fs, directory: Path) -> Iterator[Sequence[NodeId]]:
    """The readable voter sets: the newest of each segment, from the newest segment on, then those of the snapshots."""
    names = sorted(fs.listdir(directory), reverse=True)
    segments = [segment_file(base_offset, LOG) for base_offset in reversed(base_offsets_in(names))]
    for name in [*segments, *filter(parse_checkpoint, names)]:
        sets = list(_sets_in(fs, directory / name))
        if sets:
            yield sets[-1]


def _sets_in(fs: Fs, path: Path) -> Iterator[Sequence[NodeId]]:
    with closing(fs.open(path)) as file:
        for place in walk_runs(path, file, file.size()):
            # A run has no control batches.
            if isinstance(place, BadBytes | BatchRun) or not place[1].is_control:
                continue
            position, header = place
            try:
                records = list(membership_records(file.pread(header.size_bytes, position)))
            except PykraftError:
                continue
            yield from (record.voters.ids for _, record in records if isinstance(record, KRaftVoters))


LOOKS_MAX: Final = 3
BOOTSTRAP_NAME: Final = "bootstrap.checkpoint"
_PARTITION_NAME: Final = re.compile(r"(?P<topic>[\w.-]+)-[0-9]+", re.ASCII)
_RAFT_TOPICS: Final = frozenset({METADATA_TOPIC_NAME, TEST_TOPIC_NAME})
_RAFT_FILES: Final = frozenset({quorum_state.FILE_NAME, quorum_state.CHECK_NAME, recovery_point.FILE_NAME})
_PARTITION_FILES: Final = _RAFT_FILES | {epoch_checkpoint.FILE_NAME, meta.PARTITION_METADATA}
_LOG_DIRECTORY_FILES: Final = frozenset(
    {
        meta.FILE_NAME,
        BOOTSTRAP_NAME,
        ".lock",
        ".reload",  # pykraft.server.reload
        ".kafka_cleanshutdown",
        "cleaner-offset-checkpoint",
        "log-start-offset-checkpoint",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
    }
)
_PRODUCER_SNAPSHOT: Final = re.compile(r"[0-9]{20}\.snapshot")


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """One partition directory, and a summary of its log."""

    path: Path
    log: LogSummary


@dataclass(slots=True)
class VerifyReport:
    """All partitions, and what is wrong with them."""

    partitions: list[PartitionReport] = field(default_factory=list)
    findings: Findings = field(default_factory=Findings)


class Reading:
    """Reads what is large in a directory, one file after the other: the log and the snapshots."""

    def __init__(self, fs: Fs, on_progress: Callable[[int], None]) -> None:
        self.fs = fs
        self._on_progress = on_progress

    def log(
        self, directory: Path, names: Sequence[str], base_offsets: Sequence[Offset], findings: Findings
    ) -> LogSummary:
        """Check the segments with these base offsets in a partition directory with these names."""
        return LogCheck(self.fs, directory, findings, on_progress=self._on_progress).run(names, base_offsets)

    def snapshot(self, path: Path, log: LogSummary, findings: Findings) -> None:
        """Check a snapshot, also against the log that it replaces."""
        check_snapshot(self.fs, path, log, findings, self._on_progress)


def total_size_bytes(fs: Fs, directory: Path) -> int:
    """Bytes that `verify` will read, for a progress bar; an unreadable file counts 0."""
    total = 0
    for path in [directory, *_partitions(fs, directory)[0]]:
        with suppress(StorageError):
            for name in fs.listdir(path):
                if name.endswith((LOG, ".checkpoint")):
                    with closing(fs.open(path / name)) as file:
                        total += file.size()
    return total


def verify(fs: Fs, directory: Path, *, on_progress: Callable[[int], None]) -> VerifyReport:
    """Check a log directory or one partition directory; ``on_progress`` gets the number of bytes just read.

    Errors: UsageError when the directory is neither; StorageError when it cannot be read.
    """
    return verify_with(Reading(fs, on_progress), directory)


def verify_with(reading: Reading, directory: Path) -> VerifyReport:
    """As `verify`, where the log and the snapshots may have been read already."""
    report, fs = VerifyReport(), reading.fs
    names = fs.listdir(directory)
    if _is_partition(names):
        report.partitions.append(_verify_partition(directory, report.findings, reading))
        return report
    raft, others = _partitions(fs, directory)
    _refuse_other(directory, names, raft)
    findings = report.findings
    for name in names:
        path = directory / name
        if name == BOOTSTRAP_NAME:
            reading.snapshot(path, LogSummary(), findings)
        elif name == meta.FILE_NAME:
            check_by_dump(fs, path, findings, meta.REPAIR)
        elif name == proof_file.FILE_NAME:
            check_by_dump(fs, path, findings, proof_file.REPAIR)
        elif name not in _LOG_DIRECTORY_FILES and path not in raft and path not in others:
            check_odd_name(path, findings)
    if meta.FILE_NAME not in names:
        findings.add_note(
            directory, f"has no {meta.FILE_NAME}: so its node and cluster are unknown (Kafka's test server writes none)"
        )
    for path in others:
        findings.add_note(path, "is not a partition of Raft and was not checked")
    for path in raft:
        report.partitions.append(_verify_partition(path, findings, reading))
    return report


def partitions_in(fs: Fs, directory: Path) -> list[Path]:
    """The Raft partitions of a log directory; a partition directory itself.

    Errors: UsageError when the directory is neither; StorageError when it cannot be read.
    """
    names = fs.listdir(directory)
    if _is_partition(names):
        return [directory]
    raft, _ = _partitions(fs, directory)
    _refuse_other(directory, names, raft)
    return raft


def _refuse_other(directory: Path, names: Sequence[str], raft: Sequence[Path]) -> None:
    if not raft and meta.FILE_NAME not in names:
        has = counted(len(names), "other entry", "other entries") if names else "nothing"
        raise UsageError(
            f"{directory} is neither a log directory (with {meta.FILE_NAME}, or with partitions of Raft in it) nor a "
            f"partition directory: it holds {has}; give an entry of log.dirs, or one like {METADATA_TOPIC_NAME}-0"
        )


def _partitions(fs: Fs, directory: Path) -> tuple[list[Path], list[Path]]:
    """Partition directories in a log directory: those of Raft, and the others."""
    raft: list[Path] = []
    others: list[Path] = []
    for name in fs.listdir(directory):
        match = _PARTITION_NAME.fullmatch(name)
        if match is None:
            continue
        try:
            names = fs.listdir(directory / name)
        except StorageError:
            if not (directory / name).is_dir():
                continue
            raise
        is_raft = match["topic"] in _RAFT_TOPICS or not _RAFT_FILES.isdisjoint(names)
        (raft if is_raft else others).append(directory / name)
    return raft, others


def _is_partition(names: Sequence[str]) -> bool:
    return not _PARTITION_FILES.isdisjoint(names) or any(parse_segment_file(name) for name in names)


def _verify_partition(directory: Path, findings: Findings, reading: Reading) -> PartitionReport:
    """Check until there is no damage, or until two looks find the same and no truncation could explain it."""
    fs = reading.fs
    earlier: Findings | None = None
    for _ in range(LOOKS_MAX - 1):
        before = _epochs_and_segments(fs, directory)
        found = Findings()
        try:
            report = _check_once(directory, found, reading)
        except StorageError:
            if _epochs_and_segments(fs, directory) == before:
                # Nothing changed, so a truncation by a running node is not the reason.
                raise
            continue
        was_seen, earlier = earlier is not None, found if earlier is None else found.also_in(earlier)
        if not earlier.damage_count or (was_seen and _epochs_and_segments(fs, directory) == before):
            findings.extend(earlier)
            return report
    # It changed during the checks so far: report the damage of a last one, with a warning.
    found = Findings()
    report = _check_once(directory, found, reading)
    found = found if earlier is None else found.also_in(earlier)
    if found.damage_count:
        found.add_note(directory, "changed during the check: what is reported as damage may be a truncation")
    findings.extend(found)
    return report


def _epochs_and_segments(fs: Fs, directory: Path) -> tuple[bytes, tuple[str, ...]]:
    """The files that change when a log is truncated: the epoch checkpoint's content and the segments' names."""
    path = directory / epoch_checkpoint.FILE_NAME
    try:
        epochs = epoch_checkpoint.read_content(fs, path) if fs.exists(path) else b""
    except StorageError:
        epochs = b""
    return epochs, tuple(name for name in fs.listdir(directory) if name.endswith(LOG))


def _check_once(directory: Path, findings: Findings, reading: Reading) -> PartitionReport:
    fs = reading.fs
    names = fs.listdir(directory)
    base_offsets = base_offsets_in(names)
    snapshot_offsets = [found.offset for found in snapshot_ids_in(names)]
    log = reading.log(directory, names, base_offsets, findings)
    if log.is_sound:
        check_epochs(fs, directory, log, snapshot_offsets, findings)
        check_election(fs, directory, log, findings)
    else:
        check_election(fs, directory, LogSummary(), findings)
    for name in names:
        _check_other(directory / name, log, set(base_offsets), findings, reading)
    advise(fs, directory, findings)
    return PartitionReport(path=directory, log=log)


def _check_other(path: Path, log: LogSummary, base_offsets: set[Offset], findings: Findings, reading: Reading) -> None:
    """Check a file that `LogCheck` and the checks of small files did not."""
    fs = reading.fs
    segment = parse_segment_file(path.name)
    if parse_checkpoint(path.name):
        try:
            reading.snapshot(path, log, findings)
        except StorageError:
            if fs.exists(path):
                # Otherwise a running node removed this snapshot, since it has a later one.
                raise
    elif segment is not None:
        if segment[0] not in base_offsets:
            findings.add_note(path, f"is an index without its {LOG} file; the next start removes it")
    elif path.name == meta.PARTITION_METADATA:
        check_by_dump(fs, path, findings, meta.PARTITION_REPAIR)
    elif _PRODUCER_SNAPSHOT.fullmatch(path.name):
        check_by_dump(fs, path, findings, "remove this file: Raft has no producers, and Kafka writes it again")
    elif path.name == quarantine_file.FILE_NAME:
        check_by_dump(fs, path, findings, quarantine_file.REPAIR)
        findings.add_note(path, "says that the node lost part of its log, and does not vote until it has it again")
    elif path.name not in _PARTITION_FILES:
        check_odd_name(path, findings)

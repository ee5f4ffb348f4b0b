"""Snapshot files in a partition directory: what their names say, which there are, and how they come and go.

| name | what it is |
|---|---|
| ``<offset>-<epoch>.checkpoint`` | a whole snapshot: end offset (20 digits), epoch of its last record (10 digits) |
| ``<offset>-<epoch>.checkpoint.part`` | one that is being written here |
| ``<offset>-<epoch>-<leader's epoch>.checkpoint.part`` | one that is being fetched; Kafka has any number there |
| ``<offset>-<epoch>.checkpoint.deleted`` | one that no longer counts, and is removed when nobody waits for the disk |
| ``<offset>-<epoch>.checkpoint.damaged`` | one that was set aside at a start: for whoever wants to look at it |

Not one of them is ``bootstrap.checkpoint``, which Kafka 4.3 and earlier gave the application at formatting.

Invariant: a name that says ``.checkpoint`` and nothing after it belongs to a whole file. It appears by a rename of what
was synced, and goes by a rename. Snapshots are ordered by epoch, then offset: as the log that they stand for would be.
It refuses to know what is in the files, and which of them are still needed (`pykraft.snapshot.retention`).

Source: KIP-630 §Snapshot Format; Kafka's ``Snapshots``, ``SnapshotPath``, ``KafkaRaftLog.recoverSnapshots``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final, assert_never

from pykraft.log.fs import Fs
from pykraft.types import Epoch, Offset, OffsetAndEpoch

BOOTSTRAP_ID: Final = OffsetAndEpoch(Offset(0), Epoch(0))
"""Id of the snapshot that formatting writes. It is never served to another replica."""

_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{10})(-[^.]+)?\.checkpoint(\.part|\.deleted)?")
_LEADER_EPOCH: Final = re.compile(r"-([0-9]{10})")
_OFFSET_MAX: Final = 2**63 - 1
_EPOCH_MAX: Final = 2**31 - 1


class FileKind(Enum):
    """What a snapshot file is good for."""

    WHOLE = ""
    PART = ".part"
    DELETED = ".deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFile:
    """What the name of a snapshot file says."""

    snapshot_id: OffsetAndEpoch
    kind: FileKind
    leader_epoch: Epoch | None = None
    """Of a part that is fetched: from the leader of which epoch. None for all else, and for parts of Kafka's."""


def checkpoint_path(directory: Path, snapshot_id: OffsetAndEpoch) -> Path:
    """Where the whole snapshot is."""
    return directory / f"{stem_of(snapshot_id)}.checkpoint"


def part_path(directory: Path, snapshot_id: OffsetAndEpoch, *, leader_epoch: Epoch | None = None) -> Path:
    """Where the snapshot grows: one that is written here, or one that is fetched from the leader of this epoch."""
    source = "" if leader_epoch is None else f"-{leader_epoch:010d}"
    return directory / f"{stem_of(snapshot_id)}{source}.checkpoint.part"


def parse_snapshot_file(name: str) -> SnapshotFile | None:
    """What this name says; None when it is not that of a snapshot of Raft's."""
    match = _NAME.fullmatch(name)
    if match is None or int(match[1]) > _OFFSET_MAX or int(match[2]) > _EPOCH_MAX:
        return None
    kind = FileKind(match[4] or "")
    if match[3] is not None and kind is not FileKind.PART:
        return None
    snapshot_id = OffsetAndEpoch(Offset(int(match[1])), Epoch(int(match[2])))
    source = _LEADER_EPOCH.fullmatch(match[3] or "")
    leader_epoch = Epoch(int(source[1])) if source else None
    return SnapshotFile(snapshot_id=snapshot_id, kind=kind, leader_epoch=leader_epoch)


def in_order(snapshot_ids: Iterable[OffsetAndEpoch]) -> list[OffsetAndEpoch]:
    """Oldest first: by epoch, then by offset.

    Source: Kafka's ``OffsetAndEpoch.compareTo``.
    """
    return sorted(snapshot_ids, key=lambda snapshot_id: (snapshot_id.epoch, snapshot_id.offset))


def list_snapshots(fs: Fs, directory: Path) -> list[OffsetAndEpoch]:
    """Ids of the whole snapshots, oldest first; the newest is the last."""
    found = filter(None, map(parse_snapshot_file, fs.listdir(directory)))
    return in_order(file.snapshot_id for file in found if file.kind is FileKind.WHOLE)


def retire(fs: Fs, directory: Path, snapshot_id: OffsetAndEpoch) -> None:
    """Let a snapshot no longer count; who has it open may read on. Its bytes are freed later.

    Errors: StorageError, also when there is no such snapshot.
    """
    path = checkpoint_path(directory, snapshot_id)
    fs.rename(path, path.with_name(path.name + FileKind.DELETED.value))
    fs.sync_dir(directory)


def remove_fetched_parts(fs: Fs, directory: Path, *, but: Path | None = None) -> int:
    """Remove the parts of downloads that will not go on, all but this one, and return how many there were."""
    return _remove(fs, directory, lambda file: file.leader_epoch is not None, but=but)


def clean_at_start(
    fs: Fs, directory: Path, *, log_start_offset: Offset, leader_epoch: Epoch | None = None
) -> list[OffsetAndEpoch]:
    """Bring the directory into order before anything relies on it, durably; returns the snapshots, oldest first.

    1. Remove what is deleted, and the parts: who wrote them is gone. Only what was fetched from the leader of
       ``leader_epoch``, the newest that is known of, may stay: a download can go on with it.
    2. Remove snapshots that end before the log starts: a removal was cut short.
    3. Sync the directory: after a kill it shows renames that a loss of power would still undo.

    Source: Kafka's ``KafkaRaftLog.recoverSnapshots``.
    """
    _remove(fs, directory, lambda file: not _may_stay(file, log_start_offset, leader_epoch))
    fs.sync_dir(directory)
    return list_snapshots(fs, directory)


def _may_stay(file: SnapshotFile, log_start_offset: Offset, leader_epoch: Epoch | None) -> bool:
    match file.kind:
        case FileKind.WHOLE:
            return file.snapshot_id.offset >= log_start_offset
        case FileKind.PART:
            return leader_epoch is not None and file.leader_epoch == leader_epoch
        case FileKind.DELETED:
            return False
        case _:
            assert_never(file.kind)


def _remove(fs: Fs, directory: Path, is_unwanted: Callable[[SnapshotFile], bool], *, but: Path | None = None) -> int:
    count = 0
    for name in fs.listdir(directory):
        file = parse_snapshot_file(name)
        if file is not None and directory / name != but and is_unwanted(file):
            fs.remove(directory / name)
            count += 1
    return count


def stem_of(snapshot_id: OffsetAndEpoch) -> str:
    """What a snapshot is called, in names of files and in words."""
    return f"{snapshot_id.offset:020d}-{snapshot_id.epoch:010d}"

"""The snapshot files in a partition directory: what their names mean, how they appear and how they are removed.

| name | what it is |
|---|---|
| ``<offset>-<epoch>.checkpoint`` | a complete snapshot: end offset (20 digits), epoch of its last record (10 digits) |
| ``<offset>-<epoch>.checkpoint.part`` | a snapshot that is being written here |
| ``<offset>-<epoch>-<leader's epoch>.checkpoint.part`` | one being fetched; Kafka has an arbitrary number there |
| ``<offset>-<epoch>.checkpoint.deleted`` | no longer counts; removed when nothing waits for the disk |
| ``<offset>-<epoch>.checkpoint.damaged`` | set aside at a start, for somebody to examine |

``bootstrap.checkpoint`` is none of these: Kafka 4.3 and earlier gave it to the application at formatting.

Invariant: a name that ends in ``.checkpoint`` belongs to a complete file. It appears by a rename of a synced file, and
disappears by a rename. Snapshots are ordered by epoch, then offset, like the logs that they replace.

Source: KIP-630 §Snapshot Format; Kafka's ``Snapshots``, ``SnapshotPath``, ``KafkaRaftLog.recoverSnapshots``.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final, assert_never

from pykraft.log.fs import Fs
from pykraft.types import Epoch, Offset, OffsetAndEpoch

BOOTSTRAP_ID: Final = OffsetAndEpoch(Offset(0), Epoch(0))
"""Id of the bootstrap snapshot, which formatting writes and which is never served to another replica."""

_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{10})(-[^.]+)?\.checkpoint(\.part|\.deleted)?")
_LEADER_EPOCH: Final = re.compile(r"-([0-9]{10})")
_OFFSET_MAX: Final = 2**63 - 1
_EPOCH_MAX: Final = 2**31 - 1


class FileKind(Enum):
    """The state of a snapshot file."""

    WHOLE = ""
    PART = ".part"
    DELETED = ".deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFile:
    """The facts in the name of a snapshot file."""

    snapshot_id: OffsetAndEpoch
    kind: FileKind
    leader_epoch: Epoch | None = None
    """For a part that is being fetched, the leader's epoch; None for all other files and for parts of Kafka's."""


def checkpoint_path(directory: Path, snapshot_id: OffsetAndEpoch) -> Path:
    return directory / f"{stem_of(snapshot_id)}.checkpoint"


def part_path(directory: Path, snapshot_id: OffsetAndEpoch, *, leader_epoch: Epoch | None = None) -> Path:
    """Path of the part: of a snapshot written here, or of one fetched from the leader of this epoch."""
    source = "" if leader_epoch is None else f"-{leader_epoch:010d}"
    return directory / f"{stem_of(snapshot_id)}{source}.checkpoint.part"


def parse_snapshot_file(name: str) -> SnapshotFile | None:
    """Parse a file name; None when it is not the name of a Raft snapshot."""
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
    """Sort by epoch, then by offset: oldest first.

    Source: Kafka's ``OffsetAndEpoch.compareTo``.
    """
    return sorted(snapshot_ids, key=lambda snapshot_id: (snapshot_id.epoch, snapshot_id.offset))


def list_snapshots(fs: Fs, directory: Path) -> list[OffsetAndEpoch]:
    """Ids of the complete snapshots, oldest first; the newest is the last."""
    found = filter(None, map(parse_snapshot_file, fs.listdir(directory)))
    return in_order(file.snapshot_id for file in found if file.kind is FileKind.WHOLE)


def retire(fs: Fs, directory: Path, snapshot_id: OffsetAndEpoch) -> None:
    """Rename a snapshot to ``.deleted``, so that it no longer counts; open readers may continue.

    The bulk lane frees its bytes later. Errors: StorageError, also when there is no such snapshot.
    """
    path = checkpoint_path(directory, snapshot_id)
    fs.rename(path, path.with_name(path.name + FileKind.DELETED.value))
    fs.sync_dir(directory)


def remove_fetched_parts(fs: Fs, directory: Path, *, but: Path | None = None) -> int:
    """Remove the parts of downloads that nobody will resume, all except ``but``; returns how many there were."""
    return _remove(fs, directory, lambda file: file.leader_epoch is not None, but=but)


def clean_at_start(
    fs: Fs, directory: Path, *, log_start_offset: Offset, leader_epoch: Epoch | None = None
) -> list[OffsetAndEpoch]:
    """Clean the directory before anything relies on it, durably; returns the snapshots, oldest first.

    1. Remove deleted files, and parts, because their writers are gone. A part fetched from the leader of
       ``leader_epoch``, the newest known epoch, may stay: a download can resume it.
    2. Remove snapshots that end before the log starts: an earlier removal was interrupted.
    3. Sync the directory: after a kill it shows renames that a power loss would still undo.

    Source: Kafka's ``KafkaRaftLog.recoverSnapshots``.
    """
    # 1. and 2. `_may_stay` decides for each file.
    _remove(fs, directory, lambda file: not _may_stay(file, log_start_offset, leader_epoch))
    # 3. Also when nothing was removed.
    fs.sync_dir(directory)
    return list_snapshots(fs, directory)


def _may_stay(file: SnapshotFile, log_start_offset: Offset, leader_epoch: Epoch | None) -> bool:
    match file.kind:
        case FileKind.WHOLE:
            # 2. The log starts at the end of a later snapshot.
            return file.snapshot_id.offset >= log_start_offset
        case FileKind.PART:
            # 1. Another leader's file may have other bytes.
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
    """The name of a snapshot, for file names and for messages."""
    return f"{snapshot_id.offset:020d}-{snapshot_id.epoch:010d}"

"""Opening a partition directory after any kind of stop: clean, killed, power lost, or last written by Kafka.

Owns what is done to the files at start. Invariant: when `recover` returns and nothing is corrupt, the files hold
exactly the sound prefix that `pykraft.log.log_scan` found, and all of it is durable: a killed process leaves bytes
in the page cache that were read back here, and that would still be lost with the power. A sync is not enough for
that: after one that failed the kernel holds pages for clean that are not on the disk, so what is above the recovery
point is written again. When something is damaged, no file that existed was changed: `cut_damage` does that, once
another replica has what is missing. The steps:

1. refuse what cannot be a log; 2. read the recovery point; 3. scan; 4. remove segments behind a torn tail, newest
first, indexes without a log, and what Kafka meant to delete; 5. cut the torn tail; 6. rebuild the indexes; 7. write
what may not be durable again, sync segments, then the directory; 8. renew the epoch checkpoint; 9. raise the recovery
point.

A crash within these steps leaves a directory on which they do the same again.

It refuses to know elections and snapshots' contents. Source: Kafka's ``LogLoader``; KIP-595, KIP-630; Rebello et al.,
Can Applications Recover from fsync Failures? (USENIX ATC 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pykraft.core.epochs import EpochCache
from pykraft.errors import CorruptionError, StorageError
from pykraft.log.config import LogConfig
from pykraft.log.epoch_checkpoint import FILE_NAME as EPOCHS_NAME
from pykraft.log.epoch_checkpoint import read_epochs, write_epochs
from pykraft.log.fs import Fs
from pykraft.log.log_scan import NO_ONE_KNOWS, Known, LogScan, scan_log
from pykraft.log.open_files import OpenFiles
from pykraft.log.paths import LOG, leftover_kind, parse_checkpoint, parse_segment_file
from pykraft.log.recovery_point import RecoveryPoint
from pykraft.log.segment import Segment
from pykraft.types import EPOCH_MAX, Damage, Epoch, EpochStart, Offset

_NO_POINT: Final = (
    "no recovery-point file (last written by Kafka?): an invalid batch would be cut off as a torn tail, as Kafka does, "
    "because nobody noted how far the log was synced"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What opening a log found and did; unless ``corrupt``, everything it left is durable."""

    recovery_point: Offset | None
    """Offset (exclusive) up to which the log was known to be synced; None: no file (a Java node's), or a lost one."""
    truncated_bytes: int
    """Bytes of a torn tail that were removed, whole segments included; 0 after a clean stop."""
    scanned_bytes: int
    corrupt: tuple[Damage, ...]
    notes: tuple[str, ...]
    """Sentences for the operator, one per finding."""
    control_offsets: tuple[Offset, ...] = ()
    """Base offsets of the control batches, so that nobody has to look for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredLog:
    """What a `Log` is made of. The last segment takes appends, unless the log is damaged: then `cut_damage` is next."""

    segments: list[Segment]
    files: OpenFiles
    epochs: EpochCache
    point: RecoveryPoint | None
    """None only when the log is damaged, and its recovery point was lost."""
    report: Recovery


def recover(fs: Fs, directory: Path, config: LogConfig, *, epoch_max: Epoch = EPOCH_MAX) -> RecoveredLog:
    """Bring the directory into a state from which the log can go on.

    ``epoch_max`` is the epoch of ``quorum-state``, which no record exceeds unless that file is too old.

    Errors: StorageError when it cannot be a replica's log, or the disk fails.
    """
    names = fs.listdir(directory)
    parsed = filter(None, map(parse_segment_file, names))
    base_offsets = sorted(offset for offset, suffix in parsed if suffix == LOG)
    _refuse_impossible(directory, names, base_offsets)
    notes: list[str] = []
    point, is_point_lost = _open_point(fs, directory, notes)
    known_offset = point.offset if point else None
    if known_offset is None and base_offsets and not is_point_lost:
        notes.append(_NO_POINT)
    known = Known(
        recovery_point=NO_ONE_KNOWS if is_point_lost else known_offset or Offset(0),
        epochs=_read_epochs(fs, directory, notes),
        epoch_max=epoch_max,
    )
    scan = scan_log(fs, directory, base_offsets, config=config, known=known)
    while first_offset := _end_of_cleaning(names, scan):
        notes.append(f"finished a cleaning that a power loss had interrupted: the log begins at offset {first_offset}")
        base_offsets = _finish_cleaning(fs, directory, names, first_offset)
        names = fs.listdir(directory)
        scan = scan_log(fs, directory, base_offsets, config=config, known=known)
    truncated_bytes = 0
    files = OpenFiles(fs)
    segments = [Segment(fs, files, directory, content, config) for content in scan.contents]
    if not scan.corrupt:
        truncated_bytes = _remove_unwanted(fs, directory, names, segments)
        truncated_bytes += _make_durable(fs, directory, segments, scan.epochs.entries, known_offset)
        point = _raise_point(fs, directory, point, scan.end_offset)
    last_epoch = max((entry.epoch for entry in scan.epochs.entries), default=epoch_max)
    if last_epoch > epoch_max:
        notes.append(
            f"quorum-state is older than the log (restored from a copy?): it ends in epoch {epoch_max}, the log in "
            f"{last_epoch}; the node goes on in that epoch and grants no vote in it, since its own may be lost"
        )
    if scan.torn:
        notes.append(f"removed a torn tail of {truncated_bytes} bytes from offset {scan.end_offset} on: {scan.torn}")
    report = Recovery(
        recovery_point=known_offset,
        truncated_bytes=truncated_bytes,
        scanned_bytes=scan.scanned_bytes,
        corrupt=tuple(scan.corrupt),
        notes=tuple(notes),
        control_offsets=tuple(scan.control_offsets),
    )
    return RecoveredLog(segments=segments, files=files, epochs=scan.epochs, point=point, report=report)


def cut_damage(
    fs: Fs, directory: Path, segments: Sequence[Segment], epochs: Sequence[EpochStart], point: RecoveryPoint | None
) -> RecoveryPoint:
    """Remove everything behind the sound prefix of a damaged log, as if it were a torn tail; durable when it returns.

    The recovery point falls first: a crash in between leaves what the next start takes for one, too.

    Errors: StorageError.
    """
    end_offset = segments[-1].end_offset
    durable_offset = point.offset if point is not None else None
    if point is not None:
        point.lower_to(end_offset)
    _remove_unwanted(fs, directory, fs.listdir(directory), segments)
    fs.sync_dir(directory)
    _make_durable(fs, directory, segments, epochs, durable_offset)
    return _raise_point(fs, directory, point, end_offset)


def _open_point(fs: Fs, directory: Path, notes: list[str]) -> tuple[RecoveryPoint | None, bool]:
    """The recovery point, and whether there was one that cannot be read any more."""
    try:
        return RecoveryPoint.open(fs, directory), False
    except CorruptionError as error:
        notes.append(f"{error.path} cannot be read ({error.found}): whatever is invalid in the log counts as damage")
        return None, True


def _read_epochs(fs: Fs, directory: Path, notes: list[str]) -> EpochCache | None:
    """Where epochs begin, as noted beside the log; None without such a file, empty for one that cannot be read."""
    path = directory / EPOCHS_NAME
    if not fs.exists(path):
        return None
    try:
        return EpochCache(read_epochs(fs, path))
    except CorruptionError as error:
        notes.append(f"{path} cannot be read ({error.found}): it is derived from the log again")
        return EpochCache()


def _refuse_impossible(directory: Path, names: Sequence[str], base_offsets: Sequence[Offset]) -> None:
    """Refuse a log whose beginning is missing without a snapshot in its place, and one in the midst of a swap."""
    start_offset = base_offsets[0] if base_offsets else Offset(0)
    snapshots = filter(None, map(parse_checkpoint, names))
    if start_offset > 0 and not any(snapshot.offset >= start_offset for snapshot in snapshots):
        raise StorageError(
            directory,
            f"the log starts at offset {start_offset} and no snapshot reaches that far: the records before are lost",
            repair="restore the missing segments or a snapshot, or give the replica an empty directory",
        )
    for name in names:
        if leftover_kind(name) == "swap":
            raise StorageError(
                directory / name,
                "Kafka was stopped while it replaced this segment, which it never does to a Raft log",
                repair="start Kafka once on this directory, or give the replica an empty one",
            )


def _end_of_cleaning(names: Sequence[str], scan: LogScan) -> Offset:
    """Where the log begins once a cleaning is finished that a power loss interrupted; 0 when there was none.

    `pykraft.log.log.Log.delete_before` retires segments oldest first, but a file system may keep a later rename and
    lose an earlier one. Then a segment is gone from between two others. That is no damage and no torn tail: a snapshot
    has all of it, and what follows the gap may have been acknowledged.
    """
    retired = [Offset(int(name[:20])) for name in names if leftover_kind(name) == "deleted" and LOG in name]
    snapshot_end = max((snapshot.offset for snapshot in map(parse_checkpoint, names) if snapshot), default=Offset(0))
    first_offset = Offset(0)
    gaps = [(damage.path, damage.start_offset) for damage in scan.corrupt]
    if scan.torn is not None:
        gaps.append((str(scan.torn.path), scan.end_offset))
    for path, end_offset in gaps:
        segment = parse_segment_file(Path(path).name)
        # A gap is reported at the segment behind it. The segment that is missing must be one that was retired.
        if segment and any(end_offset <= offset < segment[0] <= snapshot_end for offset in retired):
            first_offset = segment[0]
    return first_offset


def _finish_cleaning(fs: Fs, directory: Path, names: Sequence[str], first_offset: Offset) -> list[Offset]:
    """Remove the segments before ``first_offset``, durably; returns the base offsets of the others.

    What was retired goes later: until then it tells the next start why segments are missing.
    """
    parsed = [(name, found) for name in names if (found := parse_segment_file(name)) is not None]
    for name, (base_offset, _) in parsed:
        if base_offset < first_offset:
            fs.remove(directory / name)
    fs.sync_dir(directory)
    return sorted(base for _, (base, suffix) in parsed if suffix == LOG and base >= first_offset)


def _remove_unwanted(fs: Fs, directory: Path, names: Sequence[str], segments: Sequence[Segment]) -> int:
    """Remove segments that do not count, newest first, indexes without a log, and what Kafka meant to delete.

    Returns the bytes of the log files among them. Durable after a sync of the directory.
    """
    kept = {segment.base_offset for segment in segments}
    removed_bytes = 0
    for name in reversed(names):
        parsed = parse_segment_file(name)
        if parsed and parsed[0] not in kept:
            if parsed[1] == LOG:
                removed_bytes += _size_of(fs, directory / name)
            fs.remove(directory / name)
        elif leftover_kind(name):
            # While a node runs, the bulk lane removes such files as well (`pykraft.host.removal`).
            fs.remove(directory / name, missing_ok=True)
    return removed_bytes


def _make_durable(
    fs: Fs, directory: Path, segments: Sequence[Segment], epochs: Sequence[EpochStart], durable_offset: Offset | None
) -> int:
    """Cut the tail, rebuild the caches, make everything durable; returns the bytes cut.

    Below ``durable_offset`` the log is durable already; where that is not known, all but the last segment is.
    """
    tail_bytes = segments[-1].cut_tail()
    for segment in segments[:-1]:
        segment.seal()
    segments[-1].resume()
    known_offset = segments[-1].base_offset if durable_offset is None else durable_offset
    for segment in segments:
        if segment.end_offset > known_offset:
            segment.rewrite(segment.view(epochs).find_end(known_offset)[0])
        segment.sync()
    fs.sync_dir(directory)
    write_epochs(fs, directory, epochs)
    return tail_bytes


def _raise_point(fs: Fs, directory: Path, point: RecoveryPoint | None, end_offset: Offset) -> RecoveryPoint:
    if point is None:
        return RecoveryPoint.create(fs, directory, end_offset)
    point.raise_to(end_offset)
    point.settle()
    return point


def _size_of(fs: Fs, path: Path) -> int:
    file = fs.open(path)
    try:
        return file.size()
    finally:
        file.close()

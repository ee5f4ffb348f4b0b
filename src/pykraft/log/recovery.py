"""Opens a partition directory after any kind of stop: clean, killed, power lost, or last written by Kafka.

Invariant: when `recover` returns and nothing is corrupt, the files hold exactly the sound prefix that
`pykraft.log.log_scan` found, and all of it is durable. A killed process may have left bytes in the page cache only; the
scan reads them back, and a power loss would still lose them. A sync does not help: after a sync that failed, the kernel
treats pages as clean that are not on the disk. So everything above the recovery point is written again. If something is
damaged, no existing file changes until `cut_damage`, which runs once another replica has the missing records. The
steps:

1. Refuse what cannot be a log.
2. Read the recovery point, the epoch checkpoint, and which damage is known.
3. Scan.
4. Remove segments after a torn tail, newest first, indexes without a log, and files that Kafka meant to delete.
5. Cut the torn tail.
6. Rebuild the indexes.
7. Write again what may not be durable, sync the segments, then the directory.
8. Renew the epoch checkpoint.
9. Raise the recovery point.

After a crash within these steps, the next start repeats them with the same result.

Source: Kafka's ``LogLoader``; KIP-595, KIP-630; Rebello et al., Can Applications Recover from fsync Failures? (USENIX
ATC 2020).
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pykraft.config import LogSettings
from pykraft.core.epochs import EpochCache
from pykraft.errors import CorruptionError
from pykraft.log.evidence import read_noted, wrote_point
from pykraft.log.fs import Fs
from pykraft.log.judge import NO_ONE_KNOWS, Evidence, Verdict, end_of_cleaning, refuse_impossible
from pykraft.log.log_scan import GroupBatches, LogScan, scan_log
from pykraft.log.open_files import OpenFiles
from pykraft.log.paths import LOG, leftover_kind, parse_segment_file
from pykraft.log.segment import Segment
from pykraft.log.small_files.epoch_checkpoint import FILE_NAME as EPOCHS_NAME
from pykraft.log.small_files.epoch_checkpoint import read_epochs, write_epochs
from pykraft.log.small_files.recovery_point import FILE_NAME, RecoveryPoint
from pykraft.types import EPOCH_MAX, Damage, Epoch, EpochStart, Offset

_NO_POINT: Final = (
    "no recovery-point file (last written by Kafka?): nothing records how far the log was synced, so an invalid batch "
    "is cut off as a torn tail, as Kafka does, unless a whole batch follows it"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What opening a log found and did; unless ``corrupt``, everything in the log is durable."""

    recovery_point: Offset | None
    """Offset (exclusive) up to which the log was known to be synced; None: no file (a Java node's), or a lost one."""
    truncated_bytes: int
    """Bytes of a torn tail that recovery removed, whole segments included; 0 after a clean stop."""
    scanned_bytes: int
    corrupt: tuple[Damage, ...]
    verdict: Verdict
    """What ended the sound part of the log."""
    notes: tuple[str, ...]
    """Sentences for the operator, one per finding."""
    alarms: tuple[str, ...] = ()
    """The same, for what calls for action."""
    control_offsets: tuple[Offset, ...] = ()
    """Base offsets of Raft's control batches, so that no caller has to search for them."""
    groups: GroupBatches = field(default_factory=GroupBatches)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredLog:
    """The parts of a `Log`. The last segment takes appends, unless the log is damaged: then call `cut_damage` first."""

    segments: list[Segment]
    files: OpenFiles
    epochs: EpochCache
    point: RecoveryPoint | None
    """None only if the log is damaged and its recovery point was lost."""
    report: Recovery


def recover(fs: Fs, directory: Path, config: LogSettings, *, epoch_max: Epoch = EPOCH_MAX) -> RecoveredLog:
    """Bring the directory into a state from which the log can continue. The module lists the steps.

    ``epoch_max`` is the epoch of ``quorum-state``; a record exceeds it only if that file is too old.

    Errors: StorageError when the directory cannot hold a replica's log, or the disk fails.
    """
    names = fs.listdir(directory)
    base_offsets = sorted(each[0] for each in filter(None, map(parse_segment_file, names)) if each[1] == LOG)
    # 1. The names alone show some impossible logs.
    refuse_impossible(directory, names, base_offsets)
    notes: list[str] = []
    # 2. The scan needs it to tell a torn tail from damage.
    point, is_point_lost = _open_point(fs, directory, notes)
    known_offset = point.offset if point else None
    if known_offset is None and base_offsets and not is_point_lost:
        notes.append(_NO_POINT)
    evidence = Evidence(
        recovery_point=NO_ONE_KNOWS if is_point_lost else known_offset,
        epochs=_read_epochs(fs, directory, notes),
        epoch_max=epoch_max,
        noted=read_noted(fs, directory),
    )
    # 3. Find the sound prefix.
    scan = scan_log(fs, directory, base_offsets, config=config, evidence=evidence)
    while first_offset := _end_of_cleaning(names, scan):
        notes.append(f"finished a cleaning that a power loss had interrupted: the log begins at offset {first_offset}")
        base_offsets = _finish_cleaning(fs, directory, names, first_offset)
        names = fs.listdir(directory)
        scan = scan_log(fs, directory, base_offsets, config=config, evidence=evidence)
    truncated_bytes = 0
    files = OpenFiles(fs)
    segments = [Segment(fs, files, directory, content, config) for content in scan.contents]
    if not scan.corrupt:
        # 4. Remove what does not count; a damaged log keeps everything until `cut_damage`.
        truncated_bytes = _remove_unwanted(fs, directory, names, segments)
        # 5. to 8. Cut, rebuild, write again, sync.
        truncated_bytes += _make_durable(fs, directory, segments, scan.epochs.entries, known_offset)
        # 9. Last: everything below the point must be durable before the point says so.
        point = _raise_point(fs, directory, point, scan.end_offset)
    last_epoch = max((entry.epoch for entry in scan.epochs.entries), default=epoch_max)
    if last_epoch > epoch_max:
        notes.append(
            f"quorum-state is older than the log (restored from a copy?): it ends in epoch {epoch_max}, the log in "
            f"{last_epoch}; the node goes on in that epoch and grants no vote in it, since its own may be lost"
        )
    alarms = []
    if (torn := scan.torn) is not None:
        removed = f"{truncated_bytes} bytes from offset {scan.end_offset} on"
        place = f"{torn.path}: {torn.problem}"
        if scan.verdict is Verdict.TORN:
            notes.append(f"removed a torn tail of {removed}: {place}")
        else:
            alarms.append(
                f"RECORDS MAY BE LOST: removed {removed}, as Kafka does, because nothing records whether they were "
                f"synced, but they do not look like what a crash leaves: {place}; check the disk; a leader sends again "
                "what it has, but what an only voter removed is gone: restore its directory from a copy if there is one"
            )
    report = Recovery(
        recovery_point=known_offset,
        truncated_bytes=truncated_bytes,
        scanned_bytes=scan.scanned_bytes,
        corrupt=tuple(scan.corrupt),
        verdict=scan.verdict,
        notes=tuple(notes),
        alarms=tuple(alarms),
        control_offsets=tuple(scan.control_offsets),
        groups=scan.groups,
    )
    return RecoveredLog(segments=segments, files=files, epochs=scan.epochs, point=point, report=report)


def cut_damage(
    fs: Fs, directory: Path, segments: Sequence[Segment], epochs: Sequence[EpochStart], point: RecoveryPoint | None
) -> RecoveryPoint:
    """Remove everything after the sound prefix of a damaged log, as if it were a torn tail; durable when it returns.

    Errors: StorageError.
    """
    end_offset = segments[-1].end_offset
    durable_offset = point.offset if point is not None else None
    if point is not None:
        # The recovery point falls first: after a crash in between, the next start takes the rest for a torn tail, too.
        point.lower_to(end_offset)
    _remove_unwanted(fs, directory, fs.listdir(directory), segments)
    fs.sync_dir(directory)
    _make_durable(fs, directory, segments, epochs, durable_offset)
    return _raise_point(fs, directory, point, end_offset)


def _open_point(fs: Fs, directory: Path, notes: list[str]) -> tuple[RecoveryPoint | None, bool]:
    """The recovery point, and whether there was one that is lost or cannot be read any more."""
    try:
        point = RecoveryPoint.open(fs, directory)
    except CorruptionError as error:
        notes.append(f"{error.path} cannot be read ({error.found}): whatever is invalid in the log counts as damage")
        return None, True
    is_lost = point is None and wrote_point(fs, directory)
    if is_lost:
        notes.append(f"{directory / FILE_NAME} is missing: whatever is invalid in the log counts as damage")
    return point, is_lost


def _read_epochs(fs: Fs, directory: Path, notes: list[str]) -> EpochCache | None:
    """The start of each epoch from ``leader-epoch-checkpoint``; None without the file, empty if it cannot be read."""
    path = directory / EPOCHS_NAME
    if not fs.exists(path):
        return None
    try:
        return EpochCache(read_epochs(fs, path))
    except CorruptionError as error:
        notes.append(f"{path} cannot be read ({error.found}): it is derived from the log again")
        return EpochCache()


def _end_of_cleaning(names: Sequence[str], scan: LogScan) -> Offset:
    """The log start once a cleaning that a power loss interrupted is finished; 0 when there was none."""
    problems = [(damage.path, damage.start_offset) for damage in scan.corrupt]
    if scan.torn is not None:
        problems.append((scan.torn.path, scan.end_offset))
    # The scan reports a gap at the segment after it.
    segments = [(end_offset, parse_segment_file(Path(path).name)) for path, end_offset in problems]
    return end_of_cleaning(names, [(end_offset, segment[0]) for end_offset, segment in segments if segment])


def _finish_cleaning(fs: Fs, directory: Path, names: Sequence[str], first_offset: Offset) -> list[Offset]:
    """Remove the segments before ``first_offset``, durably; returns the base offsets of the others."""
    parsed = [(name, found) for name in names if (found := parse_segment_file(name)) is not None]
    for name, (base_offset, _) in parsed:
        if base_offset < first_offset:
            fs.remove(directory / name)
    # The .deleted files stay until this is durable: they tell the next start why segments are missing.
    fs.sync_dir(directory)
    return sorted(base for _, (base, suffix) in parsed if suffix == LOG and base >= first_offset)


def _remove_unwanted(fs: Fs, directory: Path, names: Sequence[str], segments: Sequence[Segment]) -> int:
    """Remove segments that do not count, newest first, indexes without a log, and files that Kafka meant to delete.

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
            # The bulk lane of a running node removes such files, too (`pykraft.host.scrubbing`).
            fs.remove(directory / name, missing_ok=True)
    return removed_bytes


def _make_durable(
    fs: Fs, directory: Path, segments: Sequence[Segment], epochs: Sequence[EpochStart], durable_offset: Offset | None
) -> int:
    """Cut the tail, rebuild the indexes and the epoch checkpoint, make everything durable; returns the bytes cut.

    The log is durable already below ``durable_offset``; if that is unknown, all segments but the last are.
    """
    # 5. The tail is in the last sound segment; step 4 removed the files after it.
    tail_bytes = segments[-1].cut_tail()
    # 6. Sealing and resuming write the index files from the entries that the scan derived.
    for segment in segments[:-1]:
        segment.seal()
    segments[-1].resume()
    # 7. Rewrite, since a second sync writes nothing if an earlier one failed (see `Segment.rewrite`).
    known_offset = segments[-1].base_offset if durable_offset is None else durable_offset
    for segment in segments:
        if segment.end_offset > known_offset:
            segment.rewrite(segment.view(epochs).find_end(known_offset)[0])
        segment.sync()
    fs.sync_dir(directory)
    # 8. A cache, written when the log it describes is durable.
    write_epochs(fs, directory, epochs)
    return tail_bytes


def _raise_point(fs: Fs, directory: Path, point: RecoveryPoint | None, end_offset: Offset) -> RecoveryPoint:
    if point is None:
        return RecoveryPoint.create(fs, directory, end_offset)
    point.raise_to(end_offset)
    point.settle()
    return point


def _size_of(fs: Fs, path: Path) -> int:
    with closing(fs.open(path)) as file:
        return file.size()

"""Checks the small files and the snapshots of a partition directory, each by itself and against the log.

This module knows what must agree: ``leader-epoch-checkpoint`` with the epochs of the log, and ``quorum-state`` with its
check file and with the last epoch of the log. It reads these files after the log, so that those of a running node are
never behind it. A node writes the check file before ``quorum-state``, so both are read again if they differ. Nothing is
written.

Source: Kafka's ``LeaderEpochFileCache``, ``FileQuorumStateStore``, ``Snapshots``; the check file is ours.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from pykraft.errors import CorruptionError, ProtocolError
from pykraft.log.fs import Fs
from pykraft.log.judge import SWAP_REPAIR
from pykraft.log.offline.dump import dump_file
from pykraft.log.offline.verify_findings import Findings
from pykraft.log.offline.verify_log import LogSummary
from pykraft.log.paths import leftover_kind, parse_checkpoint
from pykraft.log.small_files import epoch_checkpoint, quorum_state
from pykraft.log.small_files.slots import parse_slots
from pykraft.log.walk import BadBytes, walk
from pykraft.protocol.batch import BatchHeader
from pykraft.protocol.records import decode_control
from pykraft.types import EpochStart, Offset, SnapshotFooter, SnapshotHeader

READS_MAX: Final = 3
_SET_ASIDE: Final = ".checkpoint.damaged"
_LEFTOVER: Final = re.compile(r".+\.(deleted|cleaned|part|tmp)")
SNAPSHOT_ADVICE: Final = (
    "replace it with the snapshot of this name from another replica, or add a later one of that replica"
)


def check_election(fs: Fs, directory: Path, log: LogSummary, findings: Findings) -> None:
    """Check ``quorum-state`` against its check file and the epochs of the log."""
    path, check_path = directory / quorum_state.FILE_NAME, directory / quorum_state.CHECK_NAME
    slots, content = parse_slots(b""), b""
    for _ in range(READS_MAX):
        # A running node may write between the two reads, so read both again if they differ.
        slots = parse_slots(fs.read(check_path)) if fs.exists(check_path) else ()
        content = fs.read(path) if fs.exists(path) else b""
        if any(slot.payload == content for slot in slots):
            break
    if fs.exists(check_path):
        if not slots:
            expected, found = "a slot with a valid CRC", "neither of two"
            findings.add_damage(check_path, 0, expected=expected, found=found, advice=quorum_state.REPAIR_CHECK)
        elif all(slot.payload != content for slot in slots):
            _tell_difference(path, slots[-1].payload, content, findings)
            return
    last_epoch = max((entry.epoch for entry in log.epochs), default=0)
    if not content:
        if last_epoch > 0 and not slots:
            expected, found = f"a record of the election in epoch {last_epoch} or later", "no file"
            findings.add_damage(path, 0, expected=expected, found=found, advice=quorum_state.REPAIR_FILE)
        return
    try:
        stored = quorum_state.parse_quorum_state(path, content)
    except CorruptionError as error:
        findings.add_error(error)
        return
    if stored.election.epoch < last_epoch:
        expected, found = f"epoch {last_epoch} or later, as in the log", f"epoch {stored.election.epoch}"
        findings.add_damage(path, 0, expected=expected, found=found, advice=quorum_state.REPAIR_FILE)


def _tell_difference(path: Path, expected: bytes, found: bytes, findings: Findings) -> None:
    pairs = enumerate(zip(expected, found, strict=False))
    position = next((at for at, (one, two) in pairs if one != two), min(len(expected), len(found)))
    findings.add_damage(
        path,
        position,
        expected=f"{quorum_state.shown(expected)} as in {quorum_state.CHECK_NAME}",
        found=quorum_state.shown(found),
        advice=quorum_state.REPAIR_CHECK,
    )


def check_epochs(
    fs: Fs, directory: Path, log: LogSummary, snapshot_offsets: Sequence[Offset], findings: Findings
) -> None:
    """Check ``leader-epoch-checkpoint`` against the epochs of an undamaged log."""
    path = directory / epoch_checkpoint.FILE_NAME
    if not fs.exists(path):
        if log.epochs:
            findings.add_note(path, "is missing; the next start derives it from the log")
        return
    try:
        listed = epoch_checkpoint.read_epochs(fs, path)
    except CorruptionError as error:
        findings.add_error(error)
        return
    # A running node may have begun an epoch after the log was read.
    listed = [entry for entry in listed if entry.start_offset < log.end_offset]
    derived = _from_first(log.epochs, listed, snapshot_offsets)
    if listed and len(listed) < len(derived) and listed == derived[: len(listed)]:
        findings.add_note(
            path, f"is behind: it ends with epoch {listed[-1].epoch}; the next start brings it up to date"
        )
    elif listed != derived:
        pairs = zip([*derived, None], [*listed, None], strict=False)
        wanted, found = next((one, two) for one, two in pairs if one != two)
        findings.add_damage(
            path,
            epoch_checkpoint.position_of(listed, derived),
            expected=f"{_entry(wanted)}, as in the log",
            found=_entry(found),
            advice="stop the node and remove this file: it is derived from the log again at the next start",
        )


def _from_first(
    derived: Sequence[EpochStart], listed: Sequence[EpochStart], snapshot_offsets: Sequence[Offset]
) -> list[EpochStart]:
    """The log's epochs as the file should list them.

    The first entry may be later than the log's, where a snapshot allows it, or have an earlier start offset.
    """
    if not derived or not listed:
        return list(derived)
    first = listed[0]
    start = max((at for at in snapshot_offsets if at <= first.start_offset), default=Offset(0))
    if first.start_offset <= derived[0].start_offset and first.epoch == derived[0].epoch:
        return [first, *derived[1:]]
    if first.start_offset == start:
        later = [entry for entry in derived if entry.start_offset > start]
        return [first, *later] if first.epoch == derived[len(derived) - len(later) - 1].epoch else list(derived)
    return list(derived)


def _entry(entry: EpochStart | None) -> str:
    return "no further epoch" if entry is None else f"epoch {entry.epoch} from offset {entry.start_offset} on"


def check_snapshot(fs: Fs, path: Path, log: LogSummary, findings: Findings, on_progress: Callable[[int], None]) -> None:
    """Check a complete snapshot: CRC, offsets and epoch of all batches, header first, footer last.

    Its epoch is also compared with the log's.
    """
    name = parse_checkpoint(path.name)
    expected_offset = Offset(0)
    first: tuple[int, BatchHeader] | None = None
    last: tuple[int, BatchHeader] | None = None
    with closing(fs.open(path)) as file:
        end = file.size()
        for place in walk(path, file, end):
            if isinstance(place, BadBytes):
                _damaged_snapshot(findings, path, place.position, place.problem.expected, place.problem.found)
                return
            position, header = place
            if header.base_offset != expected_offset:
                _damaged_snapshot(findings, path, position, f"offset {expected_offset}", f"offset {header.base_offset}")
                return
            # No CRC covers the epoch of a batch, so only the file name shows that it changed.
            if name is not None and header.epoch != name.epoch:
                _damaged_snapshot(
                    findings, path, position, f"epoch {name.epoch} as in the name", f"epoch {header.epoch}"
                )
                return
            expected_offset = header.end_offset
            first, last = first or place, place
        ends = [
            _controls(file.pread(header.size_bytes, position), header)
            for position, header in filter(None, (first, last))
        ]
    on_progress(end)
    if not ends or SnapshotHeader not in ends[0]:
        _damaged_snapshot(findings, path, 0, "a batch with a SnapshotHeader", "another one" if ends else "no batch")
    elif SnapshotFooter not in ends[1] and last is not None:
        _damaged_snapshot(findings, path, last[0], "a batch with the SnapshotFooter", "another one: it was cut off")
    check_snapshot_epoch(path, log, findings)


def check_snapshot_epoch(path: Path, log: LogSummary, findings: Findings) -> None:
    """Compare the epoch in the name of a snapshot with that of the record before its end, if the log has that."""
    name = parse_checkpoint(path.name)
    if name is not None and log.start_offset < name.offset <= log.end_offset:
        before = [entry.epoch for entry in log.epochs if entry.start_offset < name.offset]
        if before and before[-1] != name.epoch:
            expected = f"epoch {before[-1]} in the name, as at offset {name.offset - 1} of the log"
            _damaged_snapshot(findings, path, 0, expected, f"epoch {name.epoch}")


def _controls(batch: bytes, header: BatchHeader) -> set[type]:
    if not header.is_control:
        return set()
    try:
        return {type(record) for record in decode_control(batch)}
    except ProtocolError:
        return set()


def _damaged_snapshot(findings: Findings, path: Path, position: int, expected: str, found: str) -> None:
    findings.add_damage(path, position, expected=expected, found=found, advice=SNAPSHOT_ADVICE)


def check_by_dump(fs: Fs, path: Path, findings: Findings, advice: str) -> None:
    """Check a file that depends on no other, by the problems that `pykraft dump` finds in it."""
    for fact in dump_file(fs, path, with_records=False):
        if fact.kind == "problem":
            findings.add_damage(path, **fact.fields, advice=advice)


def check_odd_name(path: Path, findings: Findings) -> None:
    if leftover_kind(path.name) == "swap":
        findings.add_damage(
            path,
            0,
            expected="no half-replaced segment, since Kafka never replaces one of a Raft log",
            found="one",
            advice=SWAP_REPAIR,
        )
    elif path.name.endswith(_SET_ASIDE):
        findings.add_note(
            path, "is a damaged snapshot that a start has set aside; it does not count, and may be removed"
        )
    elif _LEFTOVER.fullmatch(path.name):
        findings.add_note(path, "is left over from unfinished work; nothing reads it")
    else:
        findings.add_note(path, "is not a file of Kafka's or pykraft's; nothing reads it")

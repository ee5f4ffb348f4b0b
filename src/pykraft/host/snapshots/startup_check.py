"""Checks the newest snapshot at start; sets a damaged one aside if the log covers it.

Invariant: nothing is given up that only the damaged file had. The log covers it when its intact part reaches from an
older intact snapshot, or from offset 0, to the end of the damaged one. Otherwise the node does not start, and the error
says what repairs it:

1. The log starts after offset 0, and no older snapshot is intact: with the log alone, the node could lead a quorum that
   cannot serve its followers, with an application that lacks its state.
2. The log ends before the snapshot does: an install may have been cut short, and the log may lack records that were
   once acknowledged.
3. It is the checkpoint of formatting, which holds the voter set.

A file that is set aside keeps its bytes, as ``.damaged``: another program may be able to read it.

Source: a rule of ours; Kafka notices damage only when it loads a snapshot.
"""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

from pykraft.errors import CorruptionError
from pykraft.log.fs import Fs
from pykraft.log.log import Log
from pykraft.snapshot.files import BOOTSTRAP_ID, checkpoint_path, list_snapshots
from pykraft.snapshot.head import read_batches
from pykraft.types import Offset, OffsetAndEpoch

DAMAGED: Final = ".damaged"
"""Suffix for the name of a snapshot that was set aside."""
COPY: Final = "replace it with the file of this name from another replica, or add a later snapshot of that replica"
FETCH: Final = (
    "; or, but never on an only voter, remove the snapshots and the segments here, but not recovery-point: the node "
    "then fetches everything from the leader, and does not vote before it has it"
)
"""Without its log, a node that knows how far it was synced is in quarantine; see `pykraft.log.log_scan`."""


def set_damaged_aside(fs: Fs, log: Log) -> list[str]:
    """Check snapshots from the newest to the first intact one; returns a sentence for each that was set aside.

    Errors: CorruptionError for a damaged one that is needed; StorageError.
    """
    found = [each for each in list_snapshots(fs, log.path) if each.offset >= log.start_offset]
    damages: list[tuple[OffsetAndEpoch, CorruptionError]] = []
    while found and (damage := _damage(fs, log.path, found[-1])) is not None:
        damages.append((found.pop(), damage))
    sound_offset = found[-1].offset if found else Offset(0)
    for snapshot_id, damage in damages:
        if (reason := _reason_to_keep(log, snapshot_id, sound_offset)) is not None:
            raise CorruptionError(
                damage.path,
                position=damage.position,
                expected=damage.expected,
                found=damage.found,
                repair=f"{reason}: {COPY}{FETCH if 0 < snapshot_id.offset <= log.end_offset else ''}",
            )
    return _set_aside(fs, log.path, damages)


def _damage(fs: Fs, directory: Path, snapshot_id: OffsetAndEpoch) -> CorruptionError | None:
    path = checkpoint_path(directory, snapshot_id)
    try:
        with closing(fs.open(path)) as file:
            for _ in read_batches(path, file, snapshot_id.epoch):
                pass
    except CorruptionError as error:
        return error
    return None


def _reason_to_keep(log: Log, snapshot_id: OffsetAndEpoch, sound_offset: Offset) -> str | None:
    """Why the node needs this snapshot, given that the intact one before it ends at ``sound_offset``; or None."""
    if snapshot_id == BOOTSTRAP_ID:
        # Case 3.
        return "it holds the first voter set, and other replicas have the same"
    if sound_offset < log.start_offset:
        # Case 1.
        return f"the log begins at offset {log.start_offset}, and no other snapshot here covers the records before it"
    if log.end_offset < snapshot_id.offset:
        # Case 2.
        return f"the log ends at offset {log.end_offset}, before the snapshot does"
    return None


def _set_aside(fs: Fs, directory: Path, damages: Sequence[tuple[OffsetAndEpoch, CorruptionError]]) -> list[str]:
    for snapshot_id, _ in damages:
        path = checkpoint_path(directory, snapshot_id)
        fs.rename(path, path.with_name(path.name + DAMAGED))
    if damages:
        fs.sync_dir(directory)
    return [
        f"DAMAGED SNAPSHOT, set aside as {DAMAGED} since the log holds the same: {damage.path} at position "
        f"{damage.position}: expected {damage.expected}, found {damage.found}"
        for _, damage in damages
    ]

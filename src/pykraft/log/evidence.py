"""Reads what the other files of a partition directory say about its log, for the judge.

Nothing is written, so `pykraft verify` and Spark may read the directory of a running node. Invariant: the files are
read in the order in which a node would have to write them for the evidence to contradict a sound log: the recovery
point first, since a node writes the checkpoint of epochs before it raises the point. A node may still begin an epoch or
truncate its log after the evidence was read; whoever finds a problem then reads it again before believing it.

A recovery point that is missing beside other files of ours was lost, since each of them is written after it
(`wrote_point`). A file that cannot be read is evidence, too, but for ``quorum-state``: without it nothing contradicts
the epochs of the log, and a node does not start.

Source: rules of ours.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pykraft.core.epochs import EpochCache
from pykraft.errors import CorruptionError
from pykraft.log.fs import Fs
from pykraft.log.judge import NO_ONE_KNOWS, Evidence
from pykraft.log.small_files import epoch_checkpoint, proof_file, quarantine_file, quorum_state, recovery_point
from pykraft.log.small_files.slots import parse_slots
from pykraft.types import EPOCH_MAX, Damage, Epoch, Offset

NOTHING: Final = Evidence(recovery_point=None)
"""Evidence about a log without any other file."""
ALL_SYNCED: Final = Evidence(recovery_point=NO_ONE_KNOWS)
"""Evidence about batches that somebody has found sound already: whatever is invalid is damage."""


def _ignore(error: CorruptionError) -> None:
    del error


def read_evidence(fs: Fs, directory: Path, *, on_bad_point: Callable[[CorruptionError], object] = _ignore) -> Evidence:
    """What the files of a partition directory say now; ``on_bad_point`` gets the error of an unreadable recovery point.

    Errors: StorageError.
    """
    point = _recovery_point(fs, directory, on_bad_point)
    epochs = _epochs(fs, directory)
    return Evidence(
        recovery_point=point, epochs=epochs, epoch_max=_epoch_max(fs, directory), noted=read_noted(fs, directory)
    )


def read_noted(fs: Fs, directory: Path) -> Sequence[Damage]:
    """The damaged places that ``quarantine`` names; none when it cannot be read. Errors: StorageError."""
    path = directory / quarantine_file.FILE_NAME
    try:
        return quarantine_file.parse_quarantine(path, fs.read(path)).damages if fs.exists(path) else ()
    except CorruptionError:
        # The node stays in quarantine all the same.
        return ()


def wrote_point(fs: Fs, directory: Path) -> bool:
    """Whether a node of ours ran on this partition directory, so that it had a recovery point. Errors: StorageError."""
    if fs.exists(directory / quorum_state.CHECK_NAME):
        return True
    proof = proof_file.ProofFile(fs, directory.parent)
    try:
        known = proof.read()
    except CorruptionError:
        return True  # ours, though nobody can read it any more
    # An unproven directory may have the file before its first start has read the log.
    return known is not None and known.is_complete


def _recovery_point(fs: Fs, directory: Path, on_bad_point: Callable[[CorruptionError], object]) -> Offset | None:
    path = directory / recovery_point.FILE_NAME
    if not fs.exists(path):
        return NO_ONE_KNOWS if wrote_point(fs, directory) else None
    try:
        return recovery_point.parse_recovery_point(path, fs.read(path)).offset
    except CorruptionError as error:
        on_bad_point(error)
        return NO_ONE_KNOWS


def _epochs(fs: Fs, directory: Path) -> EpochCache | None:
    path = directory / epoch_checkpoint.FILE_NAME
    if not fs.exists(path):
        return None
    try:
        return EpochCache(epoch_checkpoint.read_epochs(fs, path))
    except CorruptionError:
        # Unlike a missing file, which says nothing: an unreadable one confirms no epoch of the log.
        return EpochCache()


def _epoch_max(fs: Fs, directory: Path) -> Epoch:
    """The epoch of ``quorum-state``, once an interrupted write of it is finished."""
    path, check_path = directory / quorum_state.FILE_NAME, directory / quorum_state.CHECK_NAME
    content = fs.read(path) if fs.exists(path) else b""
    slots = parse_slots(fs.read(check_path)) if fs.exists(check_path) else ()
    # ``quorum-state`` is written after its checked copy, so it may still show the election before.
    if slots and content in [slot.payload for slot in slots]:
        content = slots[-1].payload
    try:
        return quorum_state.parse_quorum_state(path, content).election.epoch
    except CorruptionError:
        # No epoch of the log is above this one.
        return EPOCH_MAX

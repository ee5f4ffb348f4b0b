"""The file ``replica-proof`` beside ``meta.properties``: whether this directory ever held a replica's files.

Ours alone (Java ignores it). One slot of `pykraft.log.small_files.slots`, whose payload is JSON of `Proof`. If the file
is absent, none of our nodes has run here since the directory was formatted, or the files came from another program;
then `meta.properties`, or a ``quorum-state``, speaks for the directory. If the file says that the proof is complete,
there was a partition directory as well; if that is gone, somebody emptied the directory.

Invariant: the file changes by a rename that is durable when the call returns. It exists before an unformatted directory
gets its ``meta.properties``, so a crash cannot leave a directory that looks formatted but never was.

Source: rules of ours (ADR 022); KAFKA-14077.
"""

import json
from pathlib import Path
from typing import Final

from pykraft.core.proof import PROVEN, Proof
from pykraft.errors import CorruptionError
from pykraft.log.fs import Fs
from pykraft.log.paths import LOG, parse_segment_file
from pykraft.log.small_files.quorum_state import FILE_NAME as QUORUM_STATE
from pykraft.log.small_files.recovery_point import FILE_NAME as RECOVERY_POINT
from pykraft.log.small_files.slots import SlotFile, parse_slots
from pykraft.types import Epoch

FILE_NAME: Final = "replica-proof"
REPAIR: Final = (
    "start the node: it takes part once the other voters have proven its directory, and writes the file anew"
)


class ProofFile:
    """The file of one log directory. One writer, one thread."""

    def __init__(self, fs: Fs, directory: Path) -> None:
        self._fs = fs
        self.path = directory / FILE_NAME

    def exists(self) -> bool:
        """True when the file exists, readable or not."""
        return self._fs.exists(self.path)

    def read(self) -> Proof | None:
        """The proof in the file; None without a file. Errors: CorruptionError when it cannot be read."""
        return parse_proof(self.path, self._fs.read(self.path)) if self.exists() else None

    def write(self, proof: Proof) -> None:
        """Replace the file; durable when it returns."""
        SlotFile.create(self._fs, self.path, encode_proof(proof)).close()

    def remove(self) -> None:
        """Remove the file if it exists; durable when it returns."""
        if self.exists():
            self._fs.remove(self.path)
            self._fs.sync_dir(self.path.parent)


def is_partition_there(fs: Fs, partition: Path) -> bool:
    """True when the directory has what every replica has once it ran: an election, and a segment or recovery point."""
    names = fs.listdir(partition) if fs.exists(partition) else []
    # A recovery point is enough: recovery then finds that the log is missing and calls it damage, and the votes are
    # known.
    has_log = any((found := parse_segment_file(each)) is not None and found[1] == LOG for each in names)
    return QUORUM_STATE in names and (has_log or RECOVERY_POINT in names)


def look_up_proof(fs: Fs, file: ProofFile, partition: Path, *, is_formatted: bool, has_given_id: bool) -> Proof:
    """What this directory proves before it is opened; if that is not enough, an unproven state is written durably."""
    try:
        known = file.read()
    except CorruptionError:
        # An unreadable file proves nothing: it may be that of an unproven replica.
        known = Proof(is_complete=False)
    is_there = is_partition_there(fs, partition)
    # Without a file trust the formatting or the partition; with one, trust it only while the partition exists.
    is_trusted = is_formatted or is_there if known is None else known.is_complete and is_there
    if is_trusted:
        return known or PROVEN
    has_fresh_id = not has_given_id if not is_formatted else known is not None and known.has_fresh_id
    was_complete = known is not None and known.is_complete
    unproven = Proof(is_complete=False, has_fresh_id=has_fresh_id, was_complete=was_complete)
    # Write even if the file says so already: a killed process may have left it in the page cache only.
    file.write(unproven)
    return unproven


def encode_proof(proof: Proof) -> bytes:
    fields = {
        "isComplete": proof.is_complete,
        "votesAboveEpoch": proof.votes_above,
        "hasFreshDirectoryId": proof.has_fresh_id,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def parse_proof(path: Path, content: bytes) -> Proof:
    """The proof in these bytes. Errors: CorruptionError."""
    slots = parse_slots(content)
    try:
        fields = json.loads(slots[-1].payload)
        return Proof(
            is_complete=fields["isComplete"] is True,
            votes_above=Epoch(int(fields["votesAboveEpoch"])),
            has_fresh_id=fields["hasFreshDirectoryId"] is True,
        )
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise CorruptionError(
            path, position=0, expected="a slot with the proof of the directory", found=repr(content[:80]), repair=REPAIR
        ) from error

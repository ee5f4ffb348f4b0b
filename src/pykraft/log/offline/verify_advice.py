"""What to do about damage depends on what the quorum still has: an only voter has nobody to fetch from.

It reads, from the files of a damaged directory, whether its node is the only voter: from ``quorum-state`` where that
names the voters (data version 0), else from the newest voter set that is still readable in the log or in a snapshot.
Invariant: no advice for an only voter empties its directory, since that deletes every record of the quorum.

Source: KIP-595 (the voters in ``quorum-state``), KIP-853 (those in the log).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from pykraft.errors import PykraftError
from pykraft.log.fs import Fs
from pykraft.log.judge import MISSING_START_REPAIR, SWAP_REPAIR
from pykraft.log.offline.verify_files import SNAPSHOT_ADVICE
from pykraft.log.offline.verify_findings import Findings
from pykraft.log.paths import LOG, parse_checkpoint, parse_segment_file
from pykraft.log.scan import REPAIR
from pykraft.log.small_files import meta, quorum_state
from pykraft.log.walk import BadBytes, walk_runs
from pykraft.protocol.batch_run import BatchRun
from pykraft.protocol.records import membership_records
from pykraft.types import KRaftVoters, NodeId

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
    segments = [name for name in names if (found := parse_segment_file(name)) is not None and found[1] == LOG]
    for name in [*segments, *(name for name in names if parse_checkpoint(name))]:
        sets = list(_sets_in(fs, directory / name))
        if sets:
            yield sets[-1]


def _sets_in(fs: Fs, path: Path) -> Iterator[Sequence[NodeId]]:
    """The voter sets in the sound control batches of a file, in order."""
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

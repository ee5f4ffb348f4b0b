"""Voter records in a node's files at start: from the newest snapshot, then from the log after its end.

`pykraft.core.voter_history` decides which of them is in force.

Source: KIP-853; Kafka's ``KRaftControlRecordStateMachine``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pykraft.log.fs import Fs
from pykraft.log.log import Log
from pykraft.log.voter_records import voter_records_of
from pykraft.snapshot.bootstrap import membership_in_snapshot
from pykraft.types import KRaftVoters, MembershipRecord, Offset


def voter_records_at_start(
    fs: Fs, log: Log, control_offsets: Iterable[Offset], *, end_offset: Offset
) -> Iterator[tuple[Offset, MembershipRecord]]:
    """Voter records by ascending offset; a snapshot's records get its last offset, -1 for the bootstrap checkpoint.

    ``control_offsets`` are those that recovery found; those that a snapshot has replaced since are skipped. For the
    core the log ends at ``end_offset``, perhaps at a snapshot's end that the files of a damaged log do not reach.

    Errors: StorageError; CorruptionError; ProtocolError for a control batch that is not Raft's.
    """
    snapshot_end, records = membership_in_snapshot(fs, log.path, end_offset)
    # A bootstrap checkpoint without voters belongs to a node that joins others: their log says which level is in force.
    if snapshot_end or any(isinstance(record, KRaftVoters) for record in records):
        yield from ((Offset(snapshot_end - 1), record) for record in records)
    held = [offset for offset in control_offsets if log.start_offset <= offset < log.end_offset]
    yield from (entry for entry in voter_records_of(log, held) if entry[0] >= snapshot_end)

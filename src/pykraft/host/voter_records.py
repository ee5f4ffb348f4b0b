"""Voter records in a node's files at start: from the newest snapshot, then from the log after its end.

The last LeaderChange tells by which voters the log was led, also in a log that has no voter set.
`pykraft.core.voter_history` decides which voter set is in force.

Source: KIP-853 §Log; KIP-595 §LeaderChangeMessage; Kafka's ``KRaftControlRecordStateMachine``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pykraft.log.fs import Fs
from pykraft.log.log import Log
from pykraft.protocol.batch import HEADER_SIZE_BYTES
from pykraft.protocol.records import control_records
from pykraft.snapshot.writer import membership_in_snapshot
from pykraft.types import ControlRecord, KRaftVoters, LeaderChange, MembershipRecord, Offset, VoterSet


def control_records_of(log: Log, control_offsets: Iterable[Offset]) -> Iterator[tuple[Offset, ControlRecord]]:
    """The records in the control batches that begin at these offsets (ascending).

    Errors: StorageError; CorruptionError for damaged bytes; ProtocolError for a control batch that is not Raft's.
    """
    for offset in control_offsets:
        yield from control_records(log.read(offset, HEADER_SIZE_BYTES))


@dataclass(slots=True)
class VoterRecords:
    """What the files of a node say about voters."""

    membership: list[tuple[Offset, MembershipRecord]] = field(default_factory=list)
    """By ascending offset; a snapshot's records have its last offset, -1 for the bootstrap checkpoint."""
    led: LeaderChange | None = None
    """The last LeaderChange of the log; None without one."""

    def led_by_others(self, static: VoterSet) -> LeaderChange | None:
        """The last LeaderChange, if it has other voters than this static set, which no voter set of the log overrules.

        None also without a static set, or without a LeaderChange.
        """
        is_overruled = any(isinstance(record, KRaftVoters) for _, record in self.membership)
        is_same = self.led is None or set(self.led.voters) == set(static.ids)
        return None if is_overruled or is_same or not len(static) else self.led


def voter_records_at_start(fs: Fs, log: Log, control_offsets: Iterable[Offset], *, end_offset: Offset) -> VoterRecords:
    """Read them; each control batch is read once.

    ``control_offsets`` are those that recovery found; those that a snapshot has replaced since are skipped. For the
    core the log ends at ``end_offset``, perhaps at a snapshot's end that the files of a damaged log do not reach.

    Errors: StorageError; CorruptionError; ProtocolError for a control batch that is not Raft's.
    """
    found = VoterRecords()
    snapshot_end, records = membership_in_snapshot(fs, log.path, end_offset)
    # A bootstrap checkpoint without voters belongs to a node that joins others: their log says which level is in force.
    if snapshot_end or any(isinstance(record, KRaftVoters) for record in records):
        found.membership += ((Offset(snapshot_end - 1), record) for record in records)
    held = [offset for offset in control_offsets if log.start_offset <= offset < log.end_offset]
    for offset, record in control_records_of(log, held):
        if isinstance(record, LeaderChange):
            found.led = record
        elif isinstance(record, MembershipRecord) and offset >= snapshot_end:
            found.membership.append((offset, record))
    return found

"""The voter sets of a world: which batches contain one, and which one is in force in a given log.

It keeps every voter set that any host ever asked its disk to append, decoded from the bytes by code of its own.
Invariant: a voter set is known as soon as its batch is on its way to a disk. In force is the newest one that a log
holds, committed or not; without one, the set that the node began with.

Source: KIP-853 §Log and voter sets (a set is in force when it is appended); Raft dissertation §4.1.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass

from pykraft.log.lane import AppendBytes
from pykraft.protocol.records import decode_control
from pykraft.sim.machine.ledger import Entry
from pykraft.types import KRaftVersion, KRaftVoters, LeaderChange, VoterSet


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterRecord:
    """A voter set in a log: its batch, the offset of its record, and other control records of the batch."""

    entry: Entry
    offset: int
    voters: VoterSet
    level: int | None = None
    """The kraft.version level in the same batch."""
    is_opening: bool = False
    """True in the first batch of a leader, which repeats the voters in force."""


class Electorate:
    """All voter sets of one world."""

    def __init__(self, initial: VoterSet) -> None:
        self.initial = initial
        """The voter set that the world begins with."""
        self.records: list[VoterRecord] = []
        """By offset, then epoch."""
        self._known: set[Entry] = set()

    def submitted(self, job: AppendBytes) -> list[VoterRecord]:
        """Read the control batches of this storage job; returns the voter sets in them."""
        appended = [Entry.of(header) for header, _ in job.batches if header.is_control]
        if not appended:
            return []
        for header, data in job.batches:
            if header.is_control and (entry := Entry.of(header)) not in self._known:
                self._known.add(entry)
                self._read(entry, data)
        return [record for record in self.records if record.entry in appended]

    def newest(self, holds: Callable[[Entry], bool]) -> VoterRecord | None:
        """The newest voter set in a log that holds these batches; None without one."""
        return next((one for one in reversed(self.records) if holds(one.entry)), None)

    def _read(self, entry: Entry, data: bytes | bytearray | memoryview) -> None:
        records = decode_control(data)
        level = next((record.level for record in records if isinstance(record, KRaftVersion)), None)
        is_opening = any(isinstance(record, LeaderChange) for record in records)
        for offset, record in enumerate(records, entry.base_offset):
            if isinstance(record, KRaftVoters):
                found = VoterRecord(
                    entry=entry, offset=offset, voters=record.voters, level=level, is_opening=is_opening
                )
                insort(self.records, found, key=lambda one: (one.offset, one.entry.epoch))

"""The state of one listener, its registers and the batches that led to it, and how snapshots store it.

Invariant: only the committed batches that the listener was given, or that a snapshot replaced, decide its state. A
snapshot names every one of these batches. So an oracle can tell which state a snapshot holds, and two replicas that
take a snapshot at the same offset write the same records. `read_snapshot` shares only the reading of a batch with the
program under test, which reads snapshots as a stream.

| record | what it is |
|---|---|
| ``E``, base offset int64, end offset int64, epoch int32, CRC uint32 | one committed batch, in order |
| ``R``, register uint8, number int64 | what a register holds |

Source: KIP-630 (a snapshot stands for all records before its end); Kafka's ``ReplicatedCounter`` has one record only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct
from typing import Final

from pykraft.errors import ProtocolError, UsageError
from pykraft.host.delivery import CommittedBatch
from pykraft.protocol.batch import check_crc
from pykraft.protocol.records import decode_control, decode_values, read_header
from pykraft.sim.facts.history import Registers
from pykraft.sim.machine.ledger import Entry
from pykraft.types import ControlRecord, KRaftVoters, SnapshotFooter, SnapshotHeader, VoterSet

ENTRY: Final = Struct(">cqqiI")
REGISTER: Final = Struct(">cBq")


class ApplicationState:
    """Registers and, if the state goes into snapshots, the batches."""

    def __init__(self, *, keeps_entries: bool) -> None:
        self.registers = Registers()
        self.entries: list[Entry] = []
        self._keeps_entries = keeps_entries

    def note(self, batch: CommittedBatch) -> None:
        """Add a batch to the state; its values are applied to the registers separately."""
        if self._keeps_entries:
            self.entries.append(Entry.of(read_header(batch.data)))

    def records(self) -> list[bytes]:
        """The records of a snapshot of the present state."""
        found = [ENTRY.pack(b"E", each.base_offset, each.end_offset, each.epoch, each.crc) for each in self.entries]
        return found + [REGISTER.pack(b"R", key, number) for key, number in self.registers.numbers()]

    @classmethod
    def of(cls, records: Iterable[bytes]) -> ApplicationState:
        """Read a state from the records of a snapshot. Errors: UsageError for any other record."""
        state = cls(keeps_entries=True)
        for record in records:
            if record[:1] == b"E" and len(record) == ENTRY.size:
                state.entries.append(Entry(*ENTRY.unpack(record)[1:]))
            elif record[:1] == b"R" and len(record) == REGISTER.size:
                state.registers.put(*REGISTER.unpack(record)[1:])
            else:
                raise UsageError(f"{record!r} is no record of a snapshot of the simulated application")
        return state


class Plain:
    """A serde of records that are already bytes."""

    def serialize(self, record: bytes) -> bytes:
        """See `pykraft.snapshot.writer.Serializer`."""
        return record

    def deserialize(self, data: bytes) -> bytes:
        """See `pykraft.snapshot.reader.Deserializer`."""
        return data


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotContent:
    """``is_whole``: begins with a header and ends with a footer; ``epoch`` is that of all batches."""

    state: ApplicationState
    epoch: int
    is_whole: bool
    voters: VoterSet | None = None
    """The voter set in it; None without one."""


@lru_cache(maxsize=64)
def read_snapshot(content: bytes) -> SnapshotContent | None:
    """Decode a snapshot; None unless the bytes are sound batches of one epoch without a gap."""
    values: list[bytes] = []
    controls: list[ControlRecord] = []
    epochs: set[int] = set()
    position = next_offset = 0
    try:
        while position < len(content):
            header = read_header(content, position)
            check_crc(content, position, header)
            if header.base_offset != next_offset:
                return None
            batch = content[position : position + header.size_bytes]
            if header.is_control:
                controls += decode_control(batch)
            else:
                values += decode_values(batch)
            epochs.add(header.epoch)
            position, next_offset = position + header.size_bytes, header.end_offset
        state = ApplicationState.of(values)
    except (ProtocolError, UsageError):
        return None
    if len(epochs) != 1:
        return None
    kinds = [type(record) for record in controls]
    voters = next((record.voters for record in controls if isinstance(record, KRaftVoters)), None)
    is_whole = kinds[:1] == [SnapshotHeader] and kinds[-1:] == [SnapshotFooter]
    return SnapshotContent(state=state, epoch=epochs.pop(), is_whole=is_whole, voters=voters)

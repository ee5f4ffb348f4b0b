"""Decodes the bytes of a snapshot for oracles: whether they are a snapshot, and which state it holds.

It shares only the reading of a batch with the program under test, which reads snapshots as a stream.

Source: KIP-630 §Snapshot Format.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from pykraft.errors import ProtocolError, UsageError
from pykraft.protocol.batch import check_crc, read_header
from pykraft.protocol.records import decode_control, decode_values
from pykraft.sim.facts.application_state import ApplicationState
from pykraft.types import ControlRecord, KRaftVoters, SnapshotFooter, SnapshotHeader, VoterSet


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

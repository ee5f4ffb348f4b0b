"""Signatures first; the body follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pykraft.log.log import Log
from pykraft.log.quorum_state import ElectionStore
from pykraft.protocol.records import BatchHeader
from pykraft.types import Buffer, Election, Io, NodeId, Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteElection:
    """Replace quorum-state."""

    io: Io
    election: Election
    voters: tuple[NodeId, ...]
    kraft_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendBatches:
    """Append whole batches and sync them."""

    io: Io
    batches: Sequence[tuple[BatchHeader, Buffer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate:
    """Cut the log so that it ends at `offset`."""

    io: Io
    offset: Offset


Job: TypeAlias = WriteElection | AppendBatches | Truncate


class OrderedLane:
    """Carries out storage jobs in order, in whatever single thread calls it."""

    def __init__(self, log: Log, elections: ElectionStore) -> None: ...

    def perform(self, jobs: Sequence[Job]) -> Io:
        """All of it durable when it returns; returns the last io. After a StorageError every call raises one."""
        ...

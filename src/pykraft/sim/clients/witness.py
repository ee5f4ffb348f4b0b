"""Whom clients and applications tell what they do and what they are told; they know nothing else of who watches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pykraft.host.delivery import CommittedBatch
from pykraft.sim.facts.history import Operation
from pykraft.sim.facts.visit import Visit
from pykraft.sim.facts.voter_requests import Asked
from pykraft.sim.machine.node import Node
from pykraft.types import OffsetAndEpoch


class Witness(Protocol):
    """Told of everything that concerns clients, in the moment that it happens."""

    def touch(self, node: Node) -> None:
        """Something happens to this node in the present event."""
        ...

    def happened(self, kind: str, node: Node) -> None:
        """Something is to be counted that is no harm."""
        ...

    def note(self, node: Node, text: str) -> None:
        """A line for the trace."""
        ...

    def absorb(self, frame: bytes) -> None:
        """A client was given these bytes."""
        ...

    def proposed(self, operation: Operation) -> None:
        """A client is about to propose."""
        ...

    def accepted(self, operation: Operation) -> None:
        """The values of this operation have their offsets; they are not in the log yet."""
        ...

    def decided(self, operation: Operation) -> None:
        """A client has its answer."""
        ...

    def delivered(self, node: Node, batches: Sequence[CommittedBatch]) -> list[list[bytes]]:
        """A listener was given these; returns the values of each batch, none for one of Raft's own."""
        ...

    def given(self, node: Node, end_offset: int) -> None:
        """An application has everything up to there."""
        ...

    def loaded(self, node: Node, snapshot_id: OffsetAndEpoch) -> None:
        """An application was given a snapshot in the place of all that it stands for."""
        ...

    def told_leader(self, node: Node, epoch: int, leader_id: int | None) -> None:
        """A listener hears of an epoch or of its leader."""
        ...

    def listens(self, node: Node, start_offset: int) -> None:
        """A plain listener begins here."""
        ...

    def overheard(self, node: Node, batches: Sequence[CommittedBatch]) -> None:
        """A plain listener was given these."""
        ...

    def skipped(self, node: Node, next_offset: int, start_offset: int) -> None:
        """A plain listener misses these offsets, and goes on at the log start."""
        ...

    def asked(self, asked: Asked) -> None:
        """An operator's request for another voter set is on its way to its leader."""
        ...

    def answered(self, asked: Asked) -> None:
        """An operator has an answer to such a request, or will never have one."""
        ...

    def visited(self, node: Node, visit: Visit) -> None:
        """A client asks this node a question, or has its answer."""
        ...

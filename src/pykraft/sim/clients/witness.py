"""The interface through which clients and applications report what they do and what they are told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pykraft.host.delivery import CommittedBatch
from pykraft.sim.facts.history import Operation
from pykraft.sim.facts.produced import IssuedId, ProducerAnswer
from pykraft.sim.facts.visit import Visit
from pykraft.sim.facts.voter_requests import VoterRequest
from pykraft.sim.machine.node import SimulatedNode
from pykraft.types import OffsetAndEpoch


class ClientWatch(Protocol):
    """What the oracles are told of clients, as `Witness.watch`."""

    def proposed(self, operation: Operation) -> None:
        """A client is about to propose."""

    def accepted(self, operation: Operation) -> None:
        """The values of this operation have their offsets; they are not in the log yet."""

    def decided(self, operation: Operation) -> None:
        """A client has its answer."""

    def produced(self, answer: ProducerAnswer) -> None:
        """A producer got the answer to a batch that it waited for."""

    def id_issued(self, issued: IssuedId) -> None:
        """A producer got an id."""

    def loaded(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch) -> None:
        """An application loaded a snapshot in place of the records that it covers."""

    def told_leader(self, node: SimulatedNode, epoch: int, leader_id: int | None) -> None:
        """A listener hears of an epoch or of its leader."""

    def listens(self, node: SimulatedNode, start_offset: int) -> None:
        """A plain listener begins at this offset."""

    def overheard(self, node: SimulatedNode, batches: Sequence[CommittedBatch]) -> None:
        """A plain listener got these batches."""

    def skipped(self, node: SimulatedNode, next_offset: int, start_offset: int) -> None:
        """A plain listener missed these offsets, and continues at the log start."""

    def asked(self, asked: VoterRequest) -> None:
        """An operator's request to change the voters is on its way to the leader."""

    def answered(self, asked: VoterRequest) -> None:
        """An operator got the answer to such a request, or will never get one."""

    def visited(self, node: SimulatedNode, visit: Visit) -> None:
        """A client asks this node a question, or got its answer."""


class Witness(Protocol):
    """Called at the moment of everything that concerns clients."""

    @property
    def watch(self) -> ClientWatch:
        """Passes on to the oracles what only they need to know."""

    def touch(self, node: SimulatedNode) -> None:
        """The present event concerns this node."""

    def happened(self, kind: str, node: SimulatedNode) -> None:
        """Something happened that is counted in the report and is not a fault."""

    def note(self, node: SimulatedNode, text: str) -> None:
        """Add a line to the trace."""

    def absorb(self, frame: bytes) -> None:
        """A client received these bytes."""

    def delivered(self, node: SimulatedNode, batches: Sequence[CommittedBatch]) -> list[list[bytes]]:
        """A listener got these batches; returns the values of each batch, none for a control batch."""

    def given(self, node: SimulatedNode, end_offset: int) -> None:
        """An application has everything up to this offset."""

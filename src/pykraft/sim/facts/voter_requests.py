"""Operators' requests to change the voters, and which nodes may join or leave because of them.

Invariant: a node may join, or leave, as long as an operator keeps asking for it or a request for it is under way. A
request whose connection broke may still be carried out while the process that received it runs.

Source: KIP-853 (AddRaftVoter, RemoveRaftVoter).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass

from pykraft.core.messages import AddVoterRequest, RemoveVoterRequest
from pykraft.errors import ErrorCode
from pykraft.sim.machine.node import Process, SimulatedNode


@dataclass(slots=True, kw_only=True, eq=False)
class VoterRequest:
    """One request and its answer."""

    message: AddVoterRequest | RemoveVoterRequest
    process: Process
    then: Callable[[VoterRequest], None]
    since: int
    """Committed end offset when it was sent: if it is carried out, then at or above this offset."""
    answer: ErrorCode | None = None
    """None until an answer comes, and for good when the connection broke."""

    @property
    def is_open(self) -> bool:
        """True while the request may still be carried out."""
        return self.answer is None and self.process.is_running

    @property
    def adds(self) -> bool:
        """True for a request to add a voter."""
        return isinstance(self.message, AddVoterRequest)


class VoterRequests:
    """The requests of one world."""

    def __init__(self) -> None:
        self.adding: Counter[SimulatedNode] = Counter()
        """Nodes that operators keep asking to add until they are voters."""
        self.removing: Counter[SimulatedNode] = Counter()
        """Voters that operators keep asking to remove."""
        self._asked: list[tuple[SimulatedNode, VoterRequest]] = []

    @property
    def joining(self) -> Collection[SimulatedNode]:
        """Nodes that may become voters because of these requests."""
        open_adds = (node for node, asked in self._asked if asked.is_open and asked.adds)
        return {*open_adds, *+self.adding}

    @property
    def leaving(self) -> Collection[SimulatedNode]:
        """Voters that may be removed because of these requests."""
        open_removals = (node for node, asked in self._asked if asked.is_open and not asked.adds)
        return {*open_removals, *+self.removing}

    def sent(self, node: SimulatedNode, asked: VoterRequest) -> None:
        """Record a request that concerns this node; requests that are over are dropped."""
        self._asked = [(each, former) for each, former in self._asked if former.is_open]
        self._asked.append((node, asked))

    def stop(self) -> None:
        """Stop asking; requests under way may still be carried out."""
        self.adding.clear()
        self.removing.clear()

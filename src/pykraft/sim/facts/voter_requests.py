"""What operators ask of voter sets: each request, and which nodes may join or leave because of one.

Invariant: a node may join, or leave, as long as somebody goes on asking for it or a request for it is under way; a
request that broke without an answer may still be carried out while the process lives that was asked.

Source: KIP-853 (AddRaftVoter, RemoveRaftVoter).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass

from pykraft.core.messages import AddVoterRequest, RemoveVoterRequest
from pykraft.errors import ErrorCode
from pykraft.sim.machine.node import Node, Process


@dataclass(slots=True, kw_only=True, eq=False)
class Asked:
    """One request and what came of it."""

    message: AddVoterRequest | RemoveVoterRequest
    process: Process
    then: Callable[[Asked], None]
    since: int
    """What was committed when it was asked (exclusive): it is carried out above that, if ever."""
    answer: ErrorCode | None = None
    """None while nobody knows, and for ever when the connection broke."""

    @property
    def is_open(self) -> bool:
        """True while it may still be carried out."""
        return self.answer is None and self.process.is_running

    @property
    def adds(self) -> bool:
        """True for a request to add a voter."""
        return isinstance(self.message, AddVoterRequest)


class VoterRequests:
    """Those of one world."""

    def __init__(self) -> None:
        self.adding: Counter[Node] = Counter()
        """Nodes that somebody goes on asking for until they are voters."""
        self.removing: Counter[Node] = Counter()
        """Voters that somebody goes on asking to remove."""
        self._asked: list[tuple[Node, Asked]] = []

    @property
    def joining(self) -> Collection[Node]:
        """Nodes that may become voters because of what was asked."""
        open_adds = (node for node, asked in self._asked if asked.is_open and asked.adds)
        return {*open_adds, *+self.adding}

    @property
    def leaving(self) -> Collection[Node]:
        """Voters that may be removed because of what was asked."""
        open_removals = (node for node, asked in self._asked if asked.is_open and not asked.adds)
        return {*open_removals, *+self.removing}

    def sent(self, node: Node, asked: Asked) -> None:
        """A request that concerns this node is on its way; those that are over are forgotten."""
        self._asked = [(each, former) for each, former in self._asked if former.is_open]
        self._asked.append((node, asked))

    def stop(self) -> None:
        """Nobody asks for more; what is under way may still be carried out."""
        self.adding.clear()
        self.removing.clear()

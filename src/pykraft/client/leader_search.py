"""Who leads, as far as a client knows: the nodes that it may ask, the epoch, and what was wrong with each.

Owns that knowledge. Invariant: the epoch never goes back; the leader is one that somebody named for this epoch and that
has not failed since. Any node names the leader, in every answer that is not its own. It refuses to know connections and
clocks: it says whom to ask, and hears how it went.

Source: KIP-595 (every error answer carries leader and epoch), KIP-853 (and the leader's endpoint).
"""

from __future__ import annotations

from collections.abc import Sequence

from pykraft.client.bootstrap import ENDPOINTS_MAX
from pykraft.types import Endpoint, Epoch


class LeaderSearch:
    """Begins with a bootstrap list; nodes that are named as leaders are remembered, so many at most."""

    def __init__(self, bootstrap: Sequence[Endpoint]) -> None:
        self.epoch = Epoch(0)
        """The highest epoch that anybody spoke of."""
        self.leader: Endpoint | None = None
        self._nodes = list(dict.fromkeys(bootstrap))
        self._problems: dict[Endpoint, str] = {}
        self._unreachable: set[Endpoint] = set()

    @property
    def whom(self) -> Endpoint:
        """The node to ask next: the leader, or else the one that was not asked for the longest time."""
        return self.leader or self._nodes[0]

    @property
    def is_nobody_there(self) -> bool:
        """True when every node that is known was unreachable since the last answer of a leader."""
        return self._unreachable.issuperset(self._nodes)

    @property
    def story(self) -> str:
        """What was wrong with each node since the last answer of a leader."""
        return "; ".join(f"{node}: {problem}" for node, problem in self._problems.items())

    def led(self, node: Endpoint) -> None:
        """This node answered as the leader of `epoch`."""
        self.leader = node
        self._problems.clear()
        self._unreachable.clear()

    def redirected(self, node: Endpoint, epoch: Epoch, leader: Endpoint | None, problem: str) -> None:
        """This node does not lead; it knows this epoch, and where its leader is or nothing of one."""
        self._note(node, problem)
        self._unreachable.discard(node)
        if epoch > self.epoch:
            self.epoch = epoch
            self.leader = None
        if epoch < self.epoch:
            return
        self.leader = leader if leader != node else None
        if leader is not None and leader not in self._nodes and len(self._nodes) < ENDPOINTS_MAX:
            self._nodes.append(leader)

    def failed(self, node: Endpoint, problem: str) -> None:
        """This node could not be asked, or answered what cannot be used."""
        self._note(node, problem)
        self._unreachable.add(node)

    def _note(self, node: Endpoint, problem: str) -> None:
        """Remember what was wrong, and ask this node last the next time."""
        self._problems[node] = problem
        if node in self._nodes:
            self._nodes.remove(node)
            self._nodes.append(node)
        if node == self.leader:
            self.leader = None

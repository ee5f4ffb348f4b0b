"""A client's knowledge of the leader: the nodes that it may ask, in which order, and the epoch.

`pykraft.client.remote.no_leader` knows what is wrong with each of them. Invariant: the epoch never goes back. The
leader is a node that somebody named for this epoch and that has not failed since. Every node names the leader in each
answer to a request meant for the leader. This module has no connections and no clock: it says which node to ask, and is
told the result.

Source: KIP-595 (every error answer carries leader and epoch), KIP-853 (and the leader's endpoint).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from pykraft.client.arguments import nodes_to_contact
from pykraft.client.remote.no_leader import AskedNodes
from pykraft.types import Endpoint, Epoch, NodeId

OnWaiting: TypeAlias = Callable[[str | None], None]
"""Called while no leader is found, with what is wrong with each node; with None when the wait is over."""


def do_not_tell(story: str | None) -> None:
    """An `OnWaiting` for a program that does not want to know."""
    del story


class LeaderSearch:
    """Starts with a bootstrap list and remembers nodes that are named as leaders, up to ENDPOINTS_MAX nodes."""

    def __init__(self, bootstrap: Sequence[Endpoint]) -> None:
        """Errors: UsageError for what is not a list of endpoints, and for an empty one."""
        self.epoch = Epoch(0)
        """The highest epoch in any answer."""
        self.leader: Endpoint | None = None
        self._nodes = nodes_to_contact("bootstrap", bootstrap)
        self.asked = AskedNodes(self._nodes)
        """What was wrong with each node since the last answer of a leader."""

    @property
    def whom(self) -> Endpoint:
        """The node to ask next: the leader, or else the node that was not asked for the longest time."""
        return self.leader or self._nodes[0]

    @property
    def is_nobody_there(self) -> bool:
        """True when every known node was unreachable since the last answer of a leader."""
        return self.asked.are_all_silent(self._nodes)

    def told(self, node: Endpoint, voters: Mapping[NodeId, Endpoint], problem: str | None) -> None:
        """This node named the voters: ask them too. It has this problem itself. None when it does not tell."""
        self._nodes += self.asked.add_voters(voters)
        if problem is not None:
            self.asked.note(node, problem, has_answered=True)

    def led(self, node: Endpoint) -> None:
        """This node answered as the leader of `epoch`."""
        self.leader = node
        self.asked.clear()

    def redirected(self, node: Endpoint, epoch: Epoch, leader: Endpoint | None, problem: str) -> None:
        """This node does not lead; it knows this epoch, and the leader's endpoint or None."""
        self._note(node, problem, has_answered=True)
        if epoch > self.epoch:
            self.epoch = epoch
            self.leader = None
        # An older epoch: the leader that it names may have resigned.
        if epoch < self.epoch:
            return
        # A node that refused as "not leader" cannot be the leader, even if it names itself.
        self.leader = leader if leader != node else None
        if leader is not None and self.asked.add(leader):
            self._nodes.append(leader)

    def failed(self, node: Endpoint, problem: str) -> None:
        """This node could not be reached, or its answer was unusable."""
        self._note(node, problem, has_answered=False)

    def _note(self, node: Endpoint, problem: str, *, has_answered: bool) -> None:
        """Remember the problem, and ask this node last, under each of its names."""
        self.asked.note(node, problem, has_answered=has_answered)
        known = self.asked.known_as(node)
        self._nodes.sort(key=lambda each: self.asked.known_as(each) == known)
        if node == self.leader:
            self.leader = None

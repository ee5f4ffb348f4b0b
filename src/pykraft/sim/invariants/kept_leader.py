"""The base of the oracles that say: a leader that a majority holds on to is not replaced.

A node that holds on to the leader of an epoch denies pre-votes. While such nodes are a majority of the voters that
another node asks, that node must not become a candidate. What counts is the time since it began to ask, and the voters
that it knew then.

Source: KIP-996.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

from pykraft.core.quorum import majority_of
from pykraft.sim.facts.view import View
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import SimulatedNode
from pykraft.types import VoterSet


class KeptLeader(Invariant):
    """Remembers who asks for pre-votes and who holds on to a leader, and looks at each candidate."""

    _verb: ClassVar[str]
    """What the majority did: it ``heard`` the leader, for example."""

    @abstractmethod
    def _holds(self, now: View) -> bool:
        """Whether a node with this view holds on to the leader of its epoch, as far as views tell."""

    @abstractmethod
    def _deniers(self, holding: Sequence[int], epoch: int, began: int) -> Iterable[int]:
        """Nodes that would have denied a pre-vote against the leader of ``epoch`` since the event ``began``.

        ``holding`` are those that `_holds` names.
        """

    def _begin(self) -> None:
        self._events = 0
        """Numbers events, to tell which of two came first."""
        self._holding: dict[int, tuple[int, int]] = {}
        """Nodes whose view says that they hold on to a leader: its epoch, and since which event."""
        self._asking: dict[int, tuple[int, VoterSet]] = {}
        """Nodes that ask for pre-votes: since which event, and which voters."""

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Remember what this node does now; check it if it became a candidate."""
        self._events += 1
        node_id = int(node.node_id)
        if not self._holds(now):
            self._holding.pop(node_id, None)
        elif self._holding.get(node_id, (-1, 0))[0] != now.epoch:
            self._holding[node_id] = (now.epoch, self._events)
        if now.is_prospective and not was.is_prospective:
            self._asking[node_id] = self._events, now.voters
        if now.role == "candidate" and was.is_prospective and self.facts.members.has_pre_votes:
            began, voters = self._asking[node_id]
            led = now.epoch - 1
            holding = [each for each, (epoch, since) in self._holding.items() if epoch == led and since < began]
            deniers = [each for each in self._deniers(holding, led, began) if each in voters.ids]
            if len(deniers) >= majority_of(len(voters)):
                seen = f"node {node_id} became a candidate of epoch {now.epoch}, while the majority {sorted(deniers)}"
                raise self.violated(f"{seen} {self._verb} the leader of epoch {led}")

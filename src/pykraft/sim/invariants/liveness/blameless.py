"""Replicas that keep the protocol never accuse each other of breaking it.

A replica closes the connection of a peer whose request or answer no correct peer can have sent: two leaders of one
epoch, a snapshot with nothing new, a high watermark that went back. Between replicas of this code that never has to
happen. If it does, one of the two is wrong, and often they would go on like that for ever. A replica does not give up a
leader that keeps the protocol either (ADR 028).

There are exceptions. A node whose disk was lost and formatted by an operator does not know what it said before, and may
object when it is taken for a leader; so may one whose ``quorum-state`` was replaced by an older copy. A node whose disk
was emptied knows that it has forgotten. While some disk lies, or once a stranger has sent anything, the rule is not
checked.

Source: ours; what Kafka's ``KafkaRaftClient`` throws an ``IllegalStateException`` for.
"""

from __future__ import annotations

from typing import Final

from pykraft.sim.invariants.invariant import Invariant, Report, SimulatedNode
from pykraft.types import ReportKind

BLAMES: Final = (ReportKind.PEER_CLOSED, ReportKind.REQUESTER_CLOSED, ReportKind.LEADER_GIVEN_UP)


class NobodyIsBlamed(Invariant):
    """Only a node that lost its disk closes a connection for what was said on it, or gives up a leader."""

    def _begin(self) -> None:
        self._forgetful: set[int] = set()

    def wiped(self, node: SimulatedNode) -> None:
        """The node has forgotten what it said."""
        self._forgetful.add(int(node.node_id))

    def emptied(self, node: SimulatedNode) -> None:
        """The node knows that it has forgotten, so it must not accuse anybody."""

    def forgot_votes(self, node: SimulatedNode) -> None:
        """The node may have forgotten that it led."""
        self._forgetful.add(int(node.node_id))

    def lost(self, node: SimulatedNode) -> None:
        """The node may have forgotten what it said."""
        self._forgetful.add(int(node.node_id))

    def reported(self, node: SimulatedNode, report: Report) -> None:
        """Check whether the node accuses another one."""
        if report.kind not in BLAMES or self.facts.claims.is_any or int(node.node_id) in self._forgetful:
            return
        # A client that visits has a negative id: `ClientsAreToldTheTruth` judges the answers to it.
        if report.kind is ReportKind.REQUESTER_CLOSED and report.values[0] < 0:
            return
        if not any(each.disk.is_rotten for each in self.facts.nodes.values()):
            raise self.violated(f"node {node.node_id} says: {report.text}")

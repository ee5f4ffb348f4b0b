"""Replicas that keep the rules never find each other to break them.

A replica closes the connection of a peer whose request or answer no correct one can have sent: two leaders of one
epoch, a snapshot with nothing new, a high watermark that went back. Between replicas of this very code it never has
to; where it does, one of the two is wrong, and often they would go on like that for ever. Nor does it give up a leader
that keeps the rules (ADR 028).

Who lost a disk that an operator then formatted does not know any more what it said, and may wonder at being called a
leader; so may one whose ``quorum-state`` became older. One whose disk was emptied knows that it has forgotten. While
some disk lies, or once a stranger has spoken, nobody is asked: it may lead to anything.

Source: ours; what Kafka's ``KafkaRaftClient`` throws an ``IllegalStateException`` for.
"""

from __future__ import annotations

from typing import Final

from pykraft.sim.facts.facts import Facts
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import Node

CLOSING: Final = "closing "
GIVEN_UP: Final = " is given up as the leader "


class NobodyIsBlamed(Invariant):
    """No connection is closed for what was said on it, and no leader given up, but by a node that lost its disk."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._forgetful: set[int] = set()

    def wiped(self, node: Node) -> None:
        """It has forgotten what it said."""
        self._forgetful.add(int(node.node_id))

    def emptied(self, node: Node) -> None:
        """It knows that it has forgotten, so it blames nobody."""

    def forgot_votes(self, node: Node) -> None:
        """It has forgotten that it led, perhaps."""
        self._forgetful.add(int(node.node_id))

    def lost(self, node: Node) -> None:
        """It may have."""
        self._forgetful.add(int(node.node_id))

    def reported(self, node: Node, text: str) -> None:
        """Look whether it blames somebody."""
        blames = text.startswith(CLOSING) or GIVEN_UP in text
        if not blames or self.facts.claims.is_any or int(node.node_id) in self._forgetful:
            return
        if not any(each.disk.is_rotten for each in self.facts.nodes.values()):
            raise self.violated(f"node {node.node_id} says: {text}")

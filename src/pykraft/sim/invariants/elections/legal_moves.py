"""Every state of a node is legal for it, and follows a state that may precede it.

The oracle has rules of its own for what is visible from outside between two events. A candidate asked for pre-votes
before, a leader was a candidate of the same epoch, and a node that resigned has led. An observer only observes; but a
leader continues after it has removed itself, and may resign then. A voter of the set before the newest one in its log
may still act as a voter, because the newest set need not be committed.

Source: Kafka ``QuorumState`` (transitions); KIP-996; Raft dissertation §4.2.2; NoIllegalState and ValidRolesAndStates
of Vanlightly's specification of KRaft.
"""

from __future__ import annotations

from pykraft.sim.facts.view import DOWN
from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, View

OBSERVER_ROLES = frozenset({"unattached", "unattached-voted", "observer"})
LEAVING_ROLES = frozenset({"leader", "resigned"})
FIRST_ROLES = frozenset({"unattached", "unattached-voted", "follower", "observer", "candidate", "resigned"})
"""States in which a process may begin, depending on what its disk holds."""


MAY_RESIGN = frozenset({"leader", "candidate"})
"""A node that is asked to leave while it campaigns resigns in the same event in which it wins."""


class LegalMoves(Invariant):
    """No node is a candidate without pre-votes, a leader without a candidacy, or resigned without having led."""

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Compare the role with the former one."""
        if not now.is_up:
            return
        who = f"node {node.node_id}, which was {was.role} in epoch {was.epoch}, is {now.role} in epoch {now.epoch}"
        if (
            now.role not in OBSERVER_ROLES
            and not now.voters.is_voter(node.key)
            and not self._is_leaving(node, was, now)
        ):
            raise self.violated(f"{who}, and it is no voter")
        if now.leads is not (now.leader_id == node.node_id) and now.role != "resigned":
            raise self.violated(f"{who}, and takes {now.leader_id} for the leader")
        if len(now.voters) > 1 and not self._may_follow(was, now):
            raise self.violated(who)

    def _is_leaving(self, node: SimulatedNode, was: View, now: View) -> bool:
        """True for a node that will be an observer soon, but may still act as a voter or leader."""
        begins = now.leads and (was.role, was.epoch) != (now.role, now.epoch)
        has_led = now.role in LEAVING_ROLES and not begins
        return has_led or self.facts.members.former_voters_of(node).is_voter(node.key)

    def _may_follow(self, was: View, now: View) -> bool:
        if was.role == DOWN:
            return now.role in FIRST_ROLES
        if (now.role, now.epoch) == (was.role, was.epoch):
            return True
        if now.epoch < was.epoch:
            return False
        match now.role:
            case "candidate":
                has_asked = was.is_prospective or not self.facts.members.has_pre_votes
                return has_asked and now.epoch == was.epoch + 1
            case "leader":
                return was.role == "candidate" and now.epoch == was.epoch
            case "resigned":
                return was.role in MAY_RESIGN and now.epoch == was.epoch
            case _:
                return True

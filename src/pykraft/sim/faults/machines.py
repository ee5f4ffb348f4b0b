"""An operator replaces every machine of a dynamic quorum one by one, twice, while observers know the first list only.

A new machine with an endpoint of its own joins and becomes a voter, the old one is removed, and goes away for good:

1. The new machine starts with an empty disk, and is added when it has caught up.
2. The old one is removed.
3. It goes when nothing depends on it any more (`_may_go`).

Now and then an observer is switched off while that goes on. Its bootstrap servers are the first voters for ever
(`Members.first_list_only`), so after a while only its own log tells where somebody is. An observer that was away while
every voter of its log was replaced can find nobody: no protocol can promise more. So the last of them waits until the
log of each observer names another one; then every observer must get everything (`Healing`).

Source: ours (ADR 048); KIP-853 (``controller.quorum.bootstrap.servers``).
"""

from __future__ import annotations

from typing import Final

from pykraft.sim.faults.harm import Family, Harm
from pykraft.sim.faults.membership import RETRY_US, MembershipFaults
from pykraft.sim.machine.node import SimulatedNode
from pykraft.sim.scenario.scenario import MACHINES

ROUNDS: Final = 2
AWAY_PROBABILITY: Final = 0.2
AWAY_US: Final = (200_000, 5_000_000)


class MachineFaults(Family):
    """The one kind of this family."""

    def __init__(self, harm: Harm, membership: MembershipFaults) -> None:
        super().__init__(harm)
        self._membership = membership
        self._rounds = 0
        self._old: list[SimulatedNode] = []
        """Machines that are still to be replaced in this round."""
        self._is_busy = False
        self._away: set[int] = set()
        """Observers that are switched off."""
        (self._kind,) = MACHINES
        self.kinds = {self._kind: self._act}

    def stop(self) -> None:
        """Let observers come back that are switched off; machines that are to be replaced stay."""
        self._harm.facts.absent.difference_update(self._away)

    def _act(self) -> bool:
        is_away = self._rng.random() < AWAY_PROBABILITY
        return self._switch_off() if is_away else self._replace()

    def _switch_off(self) -> bool:
        """The observer ends in one of two ways, and does not start before it is switched on again."""
        facts = self._harm.facts
        found = [facts.nodes[node_id] for node_id in sorted(facts.members.first_list_only - self._away)]
        if not found:
            return False
        node = self._rng.choice(found)
        self._away.add(int(node.node_id))
        self._end(node, "is switched off")
        self._harm.later(self._rng.randint(*AWAY_US), lambda: self._switch_on(node))
        return True

    def _switch_on(self, node: SimulatedNode) -> None:
        self._away.discard(int(node.node_id))
        self._harm.facts.absent.discard(int(node.node_id))
        self._harm.world.restart(node)

    def _replace(self) -> bool:
        """Begin to replace a machine, one at a time; a second round replaces the machines of the first one."""
        world, facts = self._harm.world, self._harm.facts
        if self._is_busy or not facts.members.is_at_level_one:
            return False
        if not self._old and self._rounds < ROUNDS:
            if not self._rounds:
                facts.members.let_observers_know_first_list()
            self._rounds += 1
            voters = facts.voters()
            self._old = self._rng.sample(voters, len(voters))
        if not self._old:
            return False
        old, new = self._old.pop(), world.newcomer()
        self._is_busy = True
        self._harm.note(new, f"is to replace machine {old.node_id}")

        def is_voter() -> None:
            # 2. Only now, so that the quorum never has a voter less than before.
            self._membership.remove("removal", old, old.key, lambda: self._go(old))

        # 1. The leader refuses to add it before it has caught up, and is asked again.
        new.start()
        self._membership.add("new voter", new, is_voter)
        return True

    def _go(self, old: SimulatedNode) -> None:
        # 3. Until then it runs on as an observer.
        if not self._may_go(old):
            self._harm.later(RETRY_US, lambda: self._go(old))
            return
        self._harm.happened(self._kind, old)
        self._end(old, "is gone for good")
        self._is_busy = False

    def _may_go(self, old: SimulatedNode) -> bool:
        """Whether each voter set keeps its majority, and each observer somebody to ask."""
        facts = self._harm.facts
        observers = [facts.nodes[node_id] for node_id in facts.members.first_list_only]
        return facts.atlas.may_damage(old) and all(facts.members.knows_a_voter(each, without=old) for each in observers)

    def _end(self, node: SimulatedNode, text: str) -> None:
        self._harm.note(node, text)
        self._harm.facts.absent.add(int(node.node_id))
        if self._rng.random() < 1 / 2:
            node.kill()
        else:
            node.lose_power()

"""An operator puts older copies of whole directories back, of one voter or of a minority, and starts them at once.

Such a voter has forgotten records that it acknowledged, votes, and its epoch. No protocol can keep what only it held,
so a copy is put back only where nothing depends on what is forgotten:

- a majority of the voters, without this one, holds everything that it ever promised (`Atlas.may_lose`);
- every other voter is in a later epoch, or knows the leader of this one: nobody can ask for the vote that it gave.

Then records and votes are safe, and the operator must be told: by the leader, that a voter fetches what it had
acknowledged (`ForgottenIsTold`), and by the voter, what it cuts (`CutsAreTold`).

Source: ours (ADR 128).
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from pykraft.sim.facts.unproven import is_unproven
from pykraft.sim.faults.harm import Act, Harm
from pykraft.sim.machine.disk import Tree
from pykraft.sim.machine.fate import ALL_KEPT
from pykraft.sim.machine.node import SimulatedNode
from pykraft.sim.scenario.fault_kinds import BACKUPS
from pykraft.types import ReplicaKey

COPY_PROBABILITY: Final = 0.4


@dataclass(frozen=True, slots=True)
class _Copy:
    """A directory as it was, and whose it was."""

    key: ReplicaKey
    tree: Tree


class BackupFaults:
    """The one kind of this family."""

    def __init__(self, harm: Harm) -> None:
        self._harm = harm
        self._rng = Random(0)
        self._copies: dict[int, _Copy] = {}
        (self._kind,) = BACKUPS
        self.kinds: dict[str, Act] = {self._kind: self._act}

    def use_dice(self, rng: Random) -> None:
        """Use this generator for the coming decision."""
        self._rng = rng

    def stop(self) -> None:
        """Do nothing: what was put back stays."""

    def _act(self) -> bool:
        """Copy the directories of all nodes that have nothing to write, or put copies of a minority back."""
        voters = self._harm.facts.voters()
        if not self._copies or self._rng.random() < COPY_PROBABILITY:
            found = [node for node in voters if self._is_sound(node)]
            self._copies |= {int(node.node_id): _Copy(node.key, node.disk.left(ALL_KEPT)) for node in found}
            return bool(found)
        wanted = self._rng.randint(1, max(1, (len(voters) - 1) // 2))
        done = [node for node in self._rng.sample(voters, wanted) if self._put_back(node)]
        return bool(done)

    def _put_back(self, node: SimulatedNode) -> bool:
        facts, copy = self._harm.facts, self._copies.get(int(node.node_id))
        if copy is None or copy.key != node.key or not self._is_sound(node):
            return False
        if facts.atlas.waiting or not facts.atlas.may_lose(node) or not self._is_past(node):
            return False
        self._harm.hit(self._kind, node, "is given an older copy of its directory")
        facts.claims.older_ids.add(int(node.node_id))
        node.kill()
        self._harm.world.watch.wiped(node)
        node.disk.put_back(copy.tree)
        return True

    def _is_past(self, node: SimulatedNode) -> bool:
        """Whether no vote of this node can be asked for again: the others are past its epoch, or know its leader."""
        facts = self._harm.facts
        assert node.status is not None
        epoch = max(facts.platters.election(node).epoch, int(node.status.epoch))
        voter_ids = {int(voter_id) for voters in facts.members.in_force() for voter_id in voters.ids}
        others = [facts.platters.election(facts.nodes[each]) for each in voter_ids - {int(node.node_id)}]
        return all(each.epoch > epoch or (each.epoch == epoch and each.leader_id is not None) for each in others)

    @staticmethod
    def _is_sound(node: SimulatedNode) -> bool:
        """Whether the node runs, has nothing to write, and knows all that it ever knew."""
        is_idle = node.process is not None and node.process.is_idle
        return is_idle and not node.disk.is_rotten and not node.is_damaged and not is_unproven(node)

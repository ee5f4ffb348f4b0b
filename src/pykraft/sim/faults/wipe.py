"""An empty disk replaces a node's disk, and with it go its log, its epoch and its votes.

With static voters (KIP-595) nobody can tell the new disk from the old one: the node may vote twice, and records that
counted its copy may be lost (KAFKA-14077). So the simulated operator does what a careful one would do:

- at most a minority of the voters is harmed in any way;
- the node stays down;
- the others elect a leader of a newer epoch and commit a record in it; if need be, the present leader resigns;
- then the node starts.

That operator formats the new disk explicitly. An *emptied* disk is what happens without an operator, as with a volume
that is not mounted: the node starts at once, and has to find out by itself when it may take part (ADR 022).

None of the former votes and copies of a wiped node counts. No oracle is switched off for that: each forgets what it
remembers of this node (`Invariant.wiped`), and only at that moment.

Source: Kafka ``RaftEventSimulationTest`` (recovery after the loss of one node's data); KAFKA-14077; KIP-853.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

from pykraft.errors import CorruptionError, StorageError
from pykraft.sim.facts.facts import Facts
from pykraft.sim.faults import first_start
from pykraft.sim.faults.harm import Act, Harm
from pykraft.sim.machine.format import format_directory, replace_disk, wipe_disk
from pykraft.sim.machine.node import SimulatedNode
from pykraft.snapshot.files import parse_snapshot_file


class WipeFaults:
    """The kinds of lost disks."""

    def __init__(self, harm: Harm) -> None:
        self._harm = harm
        self.kinds: dict[str, Act] = {"wiped disk": self._wipe, "emptied disk": self._empty}

    def stop(self) -> None:
        """Do nothing: a wiped node still has to wait for the atlas."""

    def _wipe(self) -> bool:
        world, node = self._harm.world, self._harm.any_node()
        if (
            world.facts.atlas.waiting
            or not world.facts.atlas.may_damage(node)
            or is_replica_of_its_own(world.facts, node)
        ):
            return False
        self._harm.happened("wiped disk", node)
        self._exchange(node)
        return True

    def _empty(self) -> bool:
        """Empty a disk; only where all know pre-votes, without which the node could not learn the highest epoch."""
        world, node = self._harm.world, self._harm.any_node()
        if not world.facts.atlas.may_damage(node) or not world.facts.members.has_pre_votes:
            return False
        self._harm.hit("emptied disk", node, "finds its disk empty")
        world.watch.emptied(node)
        world.facts.atlas.emptied(node, self._shared_epoch(node))
        wipe_disk(node)
        node.config = replace(node.config, directory_id=node.key.directory_id)
        node.first_voters = node.config.voters
        # A generator of its own, so that worlds without such kills stay what they were.
        dice = Random(f"{world.facts.seed} emptied {world.facts.clock.now_us}")
        if dice.random() < self._harm.pace.emptied_kill_probability:
            first_start.plan_for(world.watch, node, dice, self._harm.later)
        return True

    def failed(self, node: SimulatedNode, error: StorageError) -> None:
        """Replace the disk of a node that ended because it needs a snapshot that is damaged.

        Until the atlas allows it the node starts again and again, perhaps in vain.
        """
        atlas = self._harm.facts.atlas
        is_snapshot = isinstance(error, CorruptionError) and parse_snapshot_file(Path(str(error.path)).name) is not None
        if is_snapshot and not atlas.waiting and atlas.may_damage(node):
            self._harm.happened("damaged snapshot", node, role=node.last_role)
            self._exchange(node)

    def _shared_epoch(self, node: SimulatedNode) -> int:
        """The highest epoch in which this node may have taken part: it knows it.

        Where there are strangers, another voter must know it, too: one may have told the node of an epoch that nobody
        reaches for hours.
        """
        facts = self._harm.facts
        if not facts.claims.is_any:
            return self._known_epoch(node)
        voters = {int(voter_id) for voters in facts.members.in_force() for voter_id in voters.ids}
        others = [facts.nodes[voter_id] for voter_id in voters - {int(node.node_id)}]
        known = self._known_epoch(node)
        return min(known, max(map(self._known_epoch, others), default=known))

    def _known_epoch(self, node: SimulatedNode) -> int:
        """The highest epoch that this node knows, in memory or on its disk."""
        return max(self._harm.facts.platters.election(node).epoch, node.status.epoch if node.status is not None else 0)

    def _exchange(self, node: SimulatedNode) -> None:
        world = self._harm.world
        self._harm.note(node, "is given an empty disk")
        world.facts.atlas.wiped(node, self._shared_epoch(node))
        world.watch.wiped(node)
        if world.facts.members.is_at_level_one:
            replace_disk(node)
        else:
            wipe_disk(node)
            format_directory(node)
        self._harm.move_on(node)


def is_replica_of_its_own(facts: Facts, node: SimulatedNode) -> bool:
    """True when some voter set names its directory id: then ``replaced disk`` is the fault for it."""
    sets = facts.members.in_force()
    return any((entry := voters.get(node.node_id)) and entry.key.directory_id is not None for voters in sets)

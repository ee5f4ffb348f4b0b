"""Decides which faults happen in a world, and when: all kinds in one table, and the random draws.

A world draws some of the kinds of its scenario and a pace of its own, so that worlds differ in more than their random
draws (swarm testing). Then it decides again and again which fault comes next, until the faults are told to stop. Each
decision has a random generator of its own, so leaving one out keeps the others as they were. A node that is down starts
again after a while, whatever ended it. Strangers follow a plan of their own, so a world without them stays what it was.
So do the families of `pykraft.sim.faults.own_plans`, each with a generator of its own.

Source: FoundationDB's simulation; TigerBeetle's VOPR; swarm testing (Groce et al., ISSTA 2012).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from random import Random

from pykraft.sim.faults.arena import Arena
from pykraft.sim.faults.families import Family, acts_of, families_of
from pykraft.sim.faults.harm import Harm
from pykraft.sim.faults.membership import MembershipFaults
from pykraft.sim.faults.own_plans import OwnPlan, own_plans
from pykraft.sim.faults.plan import NUMBERS_PER_PLAN, FaultPlan
from pykraft.sim.faults.process import ProcessFaults
from pykraft.sim.faults.snapshot import SnapshotFaults
from pykraft.sim.faults.stranger import StrangerFaults
from pykraft.sim.faults.wipe import WipeFaults
from pykraft.sim.machine.disk import Interrupted
from pykraft.sim.machine.node import SimulatedNode
from pykraft.sim.scenario.fault_kinds import KINDS, OF_THEIR_OWN, STRANGER
from pykraft.types import VoterSet

DRAWN_APART = {*STRANGER, *(kind for family in OF_THEIR_OWN for kind in family)}
ORDINARY = tuple(kind for kind in KINDS if kind not in DRAWN_APART)
RETRY_US = 50_000
"""Interval between two tries to start a node that may not start yet."""


class Faults:
    """Injects faults at random times until `stop` is called."""

    def __init__(
        self,
        world: Arena,
        rng: Random,
        strangers: Random | None = None,
        dice: Callable[[str], Random] | None = None,
    ) -> None:
        """``strangers`` is the random generator of the strangers' plan; None: no strangers.

        ``dice`` returns that of a family with a plan of its own, by the name of its first kind; None: none of these.
        """
        self.done: list[tuple[int, str]] = []
        """Numbers and kinds of the decisions that did harm or prepared it."""
        self._world = world
        self._harm = Harm(world, rng)
        draws = Random(rng.random())
        self._restarts = Random(rng.random())
        self._process = ProcessFaults(self._harm)
        self._membership = MembershipFaults(self._harm)
        self.snapshot = SnapshotFaults(self._harm)
        self.wipe = WipeFaults(self._harm)
        self._stranger = StrangerFaults(self._harm)
        owned = own_plans(self._harm, self._membership)
        self._families: tuple[Family, ...] = (
            self._process,
            *families_of(self._harm),
            self.wipe,
            self._membership,
            self.snapshot,
            self._stranger,
            *(each.family for each in owned),
        )
        self._kinds = _swarm(world, rng)
        period_us_max = rng.choice(self._harm.pace.period_us_max)
        plan = partial(FaultPlan, self._harm, acts_of(self._families), done=self.done)
        self._plans = [plan(self._kinds, draws=draws, period_us_max=period_us_max, use_dice=self._use_dice)]
        if strangers is not None and strangers.random() < self._harm.pace.stranger_probability:
            self._plans.append(
                plan(
                    _swarm(world, strangers, STRANGER),
                    draws=Random(strangers.random()),
                    period_us_max=strangers.choice(self._harm.pace.stranger_us_max),
                    use_dice=self._stranger.use_dice,
                    first_number=NUMBERS_PER_PLAN,
                )
            )
        if dice is not None:
            for number, each in enumerate(owned, 2):
                self._add(each, dice(next(iter(each.family.kinds))), number)
        for node in world.facts.nodes.values():
            self.joined(node)

    def _add(self, own: OwnPlan, rng: Random, number: int) -> None:
        """Add the plan of a family that has one of its own, if this world draws any of its kinds."""
        weights = {kind: self._world.facts.scenario.faults.get(kind, 0) for kind in own.family.kinds}
        kinds = {kind: weight for kind, weight in weights.items() if rng.random() < weight}
        self._plans.append(
            FaultPlan(
                self._harm,
                own.family.kinds,
                kinds,
                draws=Random(rng.random()),
                period_us_min=own.period_us_min,
                period_us_max=own.period_us_max,
                done=self.done,
                use_dice=own.family.use_dice,
                first_number=number * NUMBERS_PER_PLAN,
            )
        )

    @property
    def counts(self) -> Counter[str]:
        """How often each kind happened."""
        return self._harm.counts

    @property
    def states(self) -> dict[str, dict[str, int]]:
        """By kind of fault: how often it hit a node in each role."""
        return {kind: dict(sorted(roles.items())) for kind, roles in sorted(self._harm.states.items())}

    def joined(self, node: SimulatedNode) -> None:
        """Watch the disk of a new machine."""
        node.disk.on_torn = partial(self._torn, node)

    def voters_appended(self, leader: SimulatedNode) -> None:
        """A leader appended a voter set."""
        self._membership.voters_appended(leader)

    def voters_committed(self, was: VoterSet, now: VoterSet) -> None:
        """Another voter set was committed."""
        self._membership.voters_committed(was, now)

    def begin(self) -> None:
        """Plan the first decision of each plan."""
        for plan in self._plans:
            plan.go_on()

    def stop(self) -> None:
        """Stop: links heal, disks and clocks work, and nodes that are down start."""
        self._harm.end()
        for family in self._families:
            family.stop()
        for node in self._world.facts.nodes.values():
            if node.process is None:
                self.start(node)

    def start(self, node: SimulatedNode) -> None:
        """Start a node that is down, as soon as the atlas allows it."""
        if node.process is not None or int(node.node_id) in self._world.facts.absent:
            return
        if self._world.facts.atlas.may_return(node):
            node.start()
        else:
            self._world.facts.clock.after(RETRY_US, lambda: self.start(node))

    def ended(self, node: SimulatedNode) -> None:
        """A process ended; plan the next start of the node."""
        delay_us = self._restarts.randint(0, self._restarts.choice(self._harm.pace.restart_us_max))
        self._world.facts.clock.after(delay_us, lambda: self.start(node))

    def interrupted(self, node: SimulatedNode, interruption: Interrupted) -> None:
        """A process ended in the middle of an operation on its disk."""
        self._process.interrupted(node, interruption)

    def happened(self, kind: str, node: SimulatedNode) -> None:
        """Count an event that is not a fault."""
        self._harm.happened(kind, node)

    def committed(self, _node: SimulatedNode, _end_offset: int) -> None:
        """A node learned of a commit."""
        self._process.committed()

    def _torn(self, node: SimulatedNode) -> None:
        self._harm.happened("torn write", node, role=node.last_role)

    def _use_dice(self, rng: Random) -> None:
        self._harm.rng = rng


def _swarm(world: Arena, rng: Random, kinds: Collection[str] = ORDINARY) -> dict[str, float]:
    """The kinds of this world with their weights; each kind is drawn on its own. Cut links always heal now and then."""
    weights = {kind: world.facts.scenario.faults.get(kind, 0) for kind in kinds}
    dice = rng.random()
    probability = world.facts.scenario.pace.kind_probability
    possible = {kind: weight for kind, weight in weights.items() if weight > 0}
    drawn = {
        kind: weight
        for kind, weight in possible.items()
        if kind == "heal" or Random(f"{dice} {kind}").random() < probability
    }
    return drawn if drawn.keys() - {"heal"} else possible

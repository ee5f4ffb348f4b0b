"""Decides which faults happen in a world, and when: all kinds in one table, and the random draws.

A world draws some of the kinds of its scenario and a pace of its own, so that worlds differ in more than their random
draws (swarm testing). A plan decides again and again which fault comes next, until the faults are told to stop. Each
decision has a number and a random generator of its own, so a run can be repeated with only some of them (`Pace.only`):
those stay what they were. Strangers, and the families of `own_plans`, follow plans of their own, so a world without
them stays what it was when a family is added. A node that is down starts again after a while, whatever ended it.

Source: FoundationDB's simulation; TigerBeetle's VOPR; swarm testing (Groce et al., ISSTA 2012); delta debugging (Zeller
and Hildebrandt, 2002), which leaves decisions out.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from random import Random

from pykraft.sim.faults.disk import DiskFaults, SilentFaults, UnreadableFaults
from pykraft.sim.faults.forged import FlippedFaults, ForgedFaults
from pykraft.sim.faults.harm import Act, Arena, Family, Harm
from pykraft.sim.faults.impostor import ImpostorFaults
from pykraft.sim.faults.membership import MachineFaults, MembershipFaults
from pykraft.sim.faults.network import NetworkFaults
from pykraft.sim.faults.process import ClockFaults, ProcessFaults, SnapshotFaults, VersionFaults
from pykraft.sim.faults.stranger import StrangerFaults
from pykraft.sim.faults.twins import TwinFaults
from pykraft.sim.faults.wipe import BackupFaults, RestoreFaults, WipeFaults
from pykraft.sim.machine.disk import Interrupted
from pykraft.sim.machine.node import SimulatedNode
from pykraft.sim.scenario.scenario import KINDS, OF_THEIR_OWN, STRANGER
from pykraft.types import VoterSet

DRAWN_APART = {*STRANGER, *(kind for family in OF_THEIR_OWN for kind in family)}
ORDINARY = tuple(kind for kind in KINDS if kind not in DRAWN_APART)
RETRY_US = 50_000
"""Interval between two tries to start a node that may not start yet."""
NUMBERS_PER_PLAN = 1_000_000
SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class OwnPlan:
    """A family, and the least and the longest time between two of its decisions."""

    family: Family
    period_us_min: int
    period_us_max: int


def own_plans(harm: Harm, membership: MembershipFaults) -> tuple[OwnPlan, ...]:
    """All of them; a new one is added at the end, so that the numbers of the others' decisions stay."""
    return (
        OwnPlan(ForgedFaults(harm), 3 * SECOND_US, 5 * SECOND_US),
        OwnPlan(TwinFaults(harm), SECOND_US, 4 * SECOND_US),
        OwnPlan(BackupFaults(harm), SECOND_US // 5, SECOND_US),
        OwnPlan(MachineFaults(harm, membership), SECOND_US // 10, SECOND_US // 2),
        OwnPlan(FlippedFaults(harm), SECOND_US // 50, SECOND_US // 5),
        OwnPlan(UnreadableFaults(harm), SECOND_US // 2, 2 * SECOND_US),
        OwnPlan(ImpostorFaults(harm), SECOND_US // 5, SECOND_US),
    )


class FaultPlan:
    """One sequence of decisions: the kinds with their weights, and the function for each."""

    def __init__(  # noqa: PLR0913 - most by name, and each is another trait of a plan
        self,
        harm: Harm,
        acts: Mapping[str, Act],
        kinds: Mapping[str, float],
        *,
        draws: Random,
        period_us_max: int,
        done: list[tuple[int, str]],
        use_dice: Callable[[Random], None],
        first_number: int = 0,
        period_us_min: int | None = None,
    ) -> None:
        """``done`` collects the decisions carried out; ``use_dice`` gets each decision's generator before it.

        ``period_us_min`` is the least time between two decisions, None for that of the scenario.
        """
        self._harm = harm
        self._acts = acts
        self._kinds = kinds
        self._draws = draws
        self._period_us_max = period_us_max
        self._period_us_min = harm.pace.period_us_min if period_us_min is None else period_us_min
        self._done = done
        self._use_dice = use_dice
        self._number = first_number
        only = harm.pace.only
        numbers = range(first_number, first_number + NUMBERS_PER_PLAN)
        self._only = None if only is None else frozenset(number for number in only if number in numbers)

    def go_on(self) -> None:
        pace = self._harm.pace
        if not self._kinds or (self._only is not None and self._number > max(self._only, default=-1)):
            return
        delay_us = self._draws.randint(self._period_us_min, self._period_us_max)
        self._harm.later(delay_us if self._is_next else round(delay_us * (1 - pace.skip)), self._turn)

    @property
    def _is_next(self) -> bool:
        return self._only is None or self._number in self._only

    def _turn(self) -> None:
        (kind,) = self._draws.choices(list(self._kinds), list(self._kinds.values()))
        self._use_dice(Random(self._draws.random()))
        if self._is_next:
            self._done.append((self._number, kind))  # before the call: what it breaks at once has happened
            if not self._acts[kind]():
                self._done.pop()
        self._number += 1
        self.go_on()


class Faults:
    """Injects faults at random times until `stop` is called."""

    def __init__(
        self, world: Arena, rng: Random, strangers: Random | None = None, dice: Callable[[str], Random] | None = None
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
            NetworkFaults(self._harm),
            DiskFaults(self._harm),
            ClockFaults(self._harm),
            VersionFaults(self._harm),
            SilentFaults(self._harm),
            RestoreFaults(self._harm),
            self.wipe,
            self._membership,
            self.snapshot,
            self._stranger,
            *(each.family for each in owned),
        )
        self._kinds = _swarm(world, rng)
        period_us_max = rng.choice(self._harm.pace.period_us_max)
        acts = {kind: act for family in self._families for kind, act in family.kinds.items()}
        plan = partial(FaultPlan, self._harm, acts, done=self.done)
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
        self._membership.voters_appended(leader)

    def voters_committed(self, was: VoterSet, now: VoterSet) -> None:
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
        self._harm.happened(kind, node)

    def committed(self, _node: SimulatedNode, _end_offset: int) -> None:
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

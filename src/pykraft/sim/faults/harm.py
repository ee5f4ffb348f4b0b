"""What all families of faults share: the world, the random generator of the present decision, and the counts.

It counts how often each kind happened, and in which role the node was. Invariant: a kind is counted once, when it
happens; and nothing that was planned happens after `Harm.end`.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final, Protocol, TypeAlias

from pykraft.sim.facts.facts import Facts
from pykraft.sim.invariants.watch import Watch
from pykraft.sim.machine.node import SimulatedNode
from pykraft.sim.machine.trace import Recorder
from pykraft.sim.scenario.scenario import Pace


class Arena(Protocol):
    """A world as its faults see it."""

    facts: Facts
    """The true state of the world."""
    watch: Watch
    """Oracles forget what a fault takes away from a node; the clients that a fault creates report here."""
    recorder: Recorder | None
    """Collects events for the page of the run, if there is one."""

    def newcomer(self) -> SimulatedNode:
        """Create another machine, formatted or configured to join the others; no process runs on it yet."""

    def restart(self, node: SimulatedNode) -> None:
        """Start a node that is down, as soon as the atlas allows it."""


Act: TypeAlias = Callable[[], bool]
"""Carries out a fault or prepares it; returns False when it found nothing to act on."""
DOWN = "down"
POLL_US: Final = 200_000
RECOVERING = "recovering"


class Harm:
    """Shared by all families of one world."""

    def __init__(self, world: Arena, rng: Random) -> None:
        self.world = world
        self.rng = rng
        """The random generator of the present decision."""
        self.states: dict[str, Counter[str]] = {}
        """By kind of fault: how often it hit a node in each role."""
        self.is_over = False

    @property
    def facts(self) -> Facts:
        return self.world.facts

    @property
    def counts(self) -> Counter[str]:
        """How often each kind happened."""
        return self.facts.counts

    @property
    def pace(self) -> Pace:
        """How often faults happen, and how long they last."""
        return self.facts.scenario.pace

    def happened(self, kind: str, *nodes: SimulatedNode, role: str | None = None) -> None:
        """Count a fault; call it before the roles of these nodes change. Without nodes: it hit only the network."""
        self.counts[kind] += 1
        roles = self.states.setdefault(kind, Counter())
        roles.update(role or role_of(node) for node in nodes)
        recorder = self.world.recorder
        if recorder is not None:
            node_ids: list[int | None] = [int(node.node_id) for node in nodes]
            for node_id in node_ids or [None]:
                recorder.fault(self.facts.clock.now_us, node_id, kind)

    def hit(self, kind: str, node: SimulatedNode, text: str) -> None:
        """Count a fault of this node, and add a line to the trace."""
        self.happened(kind, node)
        self.note(node, text)

    def happens_once(self, node: SimulatedNode) -> Callable[[str], None]:
        """To be told of each error that this node's disk gives: counts each kind once."""
        seen: set[str] = set()

        def report(kind: str) -> None:
            if kind not in seen:
                seen.add(kind)
                self.happened(kind, node, role=None if node.process is not None else RECOVERING)

        return report

    def note(self, node: SimulatedNode | None, text: str) -> None:
        self.world.watch.trace.note(node.node_id if node is not None else None, text)

    def later(self, delay_us: int, act: Callable[[], object]) -> None:
        """Call this after the delay, unless the faults are over by then."""

        def act_unless_over() -> None:
            if not self.is_over:
                act()

        self.facts.clock.after(delay_us, act_unless_over)

    def move_on(self, node: SimulatedNode) -> None:
        """As long as this node waits for a later epoch, ask a leader of its epoch or an earlier one to resign."""
        self.facts.clock.after(POLL_US, lambda: self._move_on(node))

    def _move_on(self, node: SimulatedNode) -> None:
        epoch = self.facts.atlas.waiting.get(int(node.node_id))
        if epoch is None:
            return
        leader = self.facts.newest_leader()
        if leader is not None and leader.host.status.epoch <= epoch and not leader.is_paused:
            self.world.watch.touch(self.facts.nodes[leader.node_id])
            leader.host.resign(leader.host.status.epoch, self.facts.nodes[leader.node_id].clock.instant)
        self.move_on(node)

    def within(self, limits_us: tuple[int, ...]) -> int:
        """Draw a duration: first one of these limits, then anything up to it."""
        return self.rng.randint(1, max(1, self.rng.choice(limits_us)))

    def any_node(self) -> SimulatedNode:
        return self.rng.choice(list(self.facts.nodes.values()))

    def awake_node(self) -> SimulatedNode | None:
        """A random node that runs and is not paused."""
        awake = [node for node in self.facts.nodes.values() if node.process is not None and not node.process.is_paused]
        return self.rng.choice(awake) if awake else None

    def end(self) -> None:
        """From now on nothing that was planned happens."""
        self.is_over = True


class Family:
    """A table of fault kinds, and a way to stop them.

    A family with a plan of its own draws from ``_rng``, the others from `Harm.rng`.
    """

    kinds: dict[str, Act]

    def __init__(self, harm: Harm) -> None:
        self._harm = harm
        self._rng = Random(0)

    def use_dice(self, rng: Random) -> None:
        """Use this generator for the coming decision."""
        self._rng = rng

    def stop(self) -> None:
        """Cancel what was planned, and repair what heals by itself only."""


def role_of(node: SimulatedNode) -> str:
    """The present role of the node, or ``down``."""
    return node.status.role if node.status is not None else DOWN

"""What every family of faults works with: the world, the dice of one decision, and the book of what happened.

Owns the counts: how often each kind happened, and in which role the node was that it happened to. Invariant: a kind
is counted when it happens, once; and nothing that was planned happens after `Harm.end`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final, TypeAlias

from pykraft.sim.facts.facts import Facts
from pykraft.sim.faults.arena import Arena
from pykraft.sim.machine.node import Node
from pykraft.sim.scenario.scenario import Pace

Act: TypeAlias = Callable[[], bool]
"""Does harm, or prepares it; False when there was nothing to do harm to."""
DOWN = "down"
POLL_US: Final = 200_000
RECOVERING = "recovering"


class Harm:
    """Shared by all families of one world."""

    def __init__(self, world: Arena, rng: Random) -> None:
        self.world = world
        self.rng = rng
        """Dice of the present decision."""
        self.states: dict[str, Counter[str]] = {}
        """By kind: the roles of the nodes that it happened to."""
        self.is_over = False

    @property
    def facts(self) -> Facts:
        """What is true of the world."""
        return self.world.facts

    @property
    def counts(self) -> Counter[str]:
        """How often each kind happened."""
        return self.facts.counts

    @property
    def pace(self) -> Pace:
        """How often and how long."""
        return self.facts.scenario.pace

    def happened(self, kind: str, *nodes: Node, role: str | None = None) -> None:
        """Count it; call it before it changes the roles of these nodes. None: it concerned the network only."""
        self.counts[kind] += 1
        roles = self.states.setdefault(kind, Counter())
        roles.update(role or role_of(node) for node in nodes)
        recorder = self.world.recorder
        if recorder is not None:
            node_ids: list[int | None] = [int(node.node_id) for node in nodes]
            for node_id in node_ids or [None]:
                recorder.fault(self.facts.clock.now_us, node_id, kind)

    def note(self, node: Node | None, text: str) -> None:
        """A line of the trace."""
        self.world.trace.note(node.node_id if node is not None else None, text)

    def later(self, delay_us: int, act: Callable[[], object]) -> None:
        """Do it then, unless the faults are over by that time."""

        def act_unless_over() -> None:
            if not self.is_over:
                act()

        self.facts.clock.after(delay_us, act_unless_over)

    def move_on(self, node: Node) -> None:
        """While the atlas lets this node wait, ask a leader that was elected with its vote to resign."""
        self.facts.clock.after(POLL_US, lambda: self._move_on(node))

    def _move_on(self, node: Node) -> None:
        epoch = self.facts.atlas.waiting.get(int(node.node_id))
        if epoch is None:
            return
        leader = self.facts.newest_leader()
        if leader is not None and leader.host.epoch <= epoch and not leader.is_paused:
            self.world.witness.touch(self.facts.nodes[leader.node_id])
            leader.host.resign(leader.host.epoch, self.facts.nodes[leader.node_id].clock.instant)
        self.move_on(node)

    def within(self, limits_us: tuple[int, ...]) -> int:
        """A duration: one of these limits is drawn, and then anything up to it."""
        return self.rng.randint(1, max(1, self.rng.choice(limits_us)))

    def any_node(self) -> Node:
        """One of all nodes."""
        return self.rng.choice(list(self.facts.nodes.values()))

    def awake_node(self) -> Node | None:
        """One of those that run and are not paused."""
        awake = [node for node in self.facts.nodes.values() if node.process is not None and not node.process.is_paused]
        return self.rng.choice(awake) if awake else None

    def end(self) -> None:
        """Nothing happens any more."""
        self.is_over = True


def role_of(node: Node) -> str:
    """What the node is now: a role of the quorum, or ``down``."""
    return node.host.role if node.host is not None else DOWN

"""What goes wrong in a world: nodes killed or without power, links cut in one direction or both.

Each kind has its place in one table; a run draws from it at random times until the faults are told to stop.

Source: FoundationDB's simulation (swizzle-clogging); TigerBeetle's VOPR.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykraft.sim.node import Node
    from pykraft.sim.world import World

PERIOD_US_MIN = 50_000
PERIOD_US_MAX = 700_000
OPERATIONS_MAX = 12
RESTART_US_MAX = 1_000_000


class Faults:
    """Does harm at random times, as long as `stop` was not called."""

    def __init__(self, world: World, rng: Random) -> None:
        self.counts: Counter[str] = Counter()
        self._world = world
        self._rng = rng
        self._is_over = False
        self._kinds: list[tuple[str, Callable[[], bool]]] = [
            ("kill", self._kill),
            ("power loss", self._lose_power),
            ("power loss while writing", self._lose_power_while_writing),
            ("all down", self._all_down),
            ("isolated", self._isolate),
            ("one-way cut", self._cut_one_way),
            ("split", self._split),
            ("heal", self._heal),
        ]

    def begin(self) -> None:
        """Plan the first one."""
        self._world.clock.after(self._rng.randint(PERIOD_US_MIN, PERIOD_US_MAX), self._turn)

    def stop(self) -> None:
        """No more harm: links heal, nodes that are down start."""
        self._is_over = True
        self._world.network.heal()
        for node in self._world.nodes.values():
            node.disk.keep_power()
            if node.process is None:
                node.start()

    def _turn(self) -> None:
        if self._is_over:
            return
        name, happens = self._rng.choice(self._kinds)
        if happens():
            self.counts[name] += 1
        self._world.clock.after(self._rng.randint(PERIOD_US_MIN, PERIOD_US_MAX), self._turn)

    def _kill(self) -> bool:
        node = self._any_node()
        if node.process is None:
            return False
        self._world.trace.note(node.node_id, "is killed")
        node.kill()
        self._start_later(node.node_id)
        return True

    def _lose_power(self) -> bool:
        node = self._any_node()
        if node.process is None:
            return False
        self._world.trace.note(node.node_id, "loses power")
        node.lose_power()
        self._start_later(node.node_id)
        return True

    def _lose_power_while_writing(self) -> bool:
        node = self._any_node()
        if node.process is None:
            return False
        node.disk.lose_power_within(self._rng.randrange(OPERATIONS_MAX))
        self._start_later(node.node_id)
        return True

    def _all_down(self) -> bool:
        self._world.trace.note(None, "the power of all nodes goes")
        for node in self._world.nodes.values():
            node.lose_power()
            self._start_later(node.node_id)
        return True

    def _isolate(self) -> bool:
        victim = self._any_node().node_id
        self._world.trace.note(victim, "is cut off")
        for other in self._world.nodes:
            self._world.network.cut(victim, other)
            self._world.network.cut(other, victim)
        return True

    def _cut_one_way(self) -> bool:
        source, target = self._any_node().node_id, self._any_node().node_id
        self._world.trace.note(source, f"cannot reach {target}")
        self._world.network.cut(source, target)
        return source != target

    def _split(self) -> bool:
        side = [node_id for node_id in self._world.nodes if self._rng.random() < 0.5]
        self._world.trace.note(None, f"{side} are split from the rest")
        for one in side:
            for other in self._world.nodes:
                if other not in side:
                    self._world.network.cut(one, other)
                    self._world.network.cut(other, one)
        return 0 < len(side) < len(self._world.nodes)

    def _heal(self) -> bool:
        is_needed = self._world.network.cut_links > 0
        self._world.trace.note(None, "the network heals")
        self._world.network.heal()
        return is_needed

    def _any_node(self) -> Node:
        return self._rng.choice(list(self._world.nodes.values()))

    def _start_later(self, node_id: int) -> None:
        def start() -> None:
            node = self._world.nodes[node_id]
            if node.process is None:
                self._world.trace.note(node_id, "starts")
                node.start()

        self._world.clock.after(self._rng.randint(0, RESTART_US_MAX), start)

"""What goes wrong in a world: nodes killed or without power, links cut in one direction or both, leaders that leave.

Each kind has its place in one table. A world draws some of the kinds and a pace of its own, so that worlds differ
in more than their dice; then it does harm at random times until the faults are told to stop. A node that is down
starts again after a while, whatever made it go down.

Source: FoundationDB's simulation (swizzle-clogging); TigerBeetle's VOPR; swarm testing (Groce et al., ISSTA 2012).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pykraft.sim.node import Node
    from pykraft.sim.world import World


class Faults:
    """Does harm at random times, as long as `stop` was not called."""

    def __init__(self, world: World, rng: Random) -> None:
        self.counts: Counter[str] = Counter()
        self.done: list[tuple[int, str]] = []
        """Numbers of the decisions that did harm; each has its own dice, so that one can be left out."""
        self._world = world
        self._rng = rng
        self._draws = rng
        self._number = 0
        self._is_over = False
        self._waits_for_commit = False
        self._pace = pace = world.scenario.pace
        self._period_us_max = rng.choice(pace.period_us_max)
        weights = world.scenario.faults
        kinds: list[tuple[str, Callable[[], bool]]] = [
            ("kill", self._kill),
            ("kill while writing", lambda: self._interrupt(loses_power=False)),
            ("power loss", self._lose_power),
            ("power loss while writing", lambda: self._interrupt(loses_power=True)),
            ("all down", self._all_down),
            ("all down after a commit", self._await_commit),
            ("isolated", self._isolate),
            ("one-way cut", self._cut_one_way),
            ("split", self._split),
            ("resign", self._resign),
            ("shutdown", self._shut_down),
        ]
        kinds = [kind for kind in kinds if weights.get(kind[0])]
        drawn = [kind for kind in kinds if rng.random() < pace.kind_probability]
        self._kinds = [*(drawn or kinds), ("heal", self._heal), ("heal", self._heal)]

    def begin(self) -> None:
        """Plan the first one."""
        self._world.clock.after(self._rng.randint(self._pace.period_us_min, self._period_us_max), self._turn)

    def stop(self) -> None:
        """No more harm: links heal, nodes that are down start."""
        self._is_over = True
        self._waits_for_commit = False
        self._world.network.heal()
        for node in self._world.nodes.values():
            node.disk.let_be()
            if node.process is None:
                node.start()

    def ended(self, node: Node) -> None:
        """A node went down, for whatever reason."""

        def start() -> None:
            if node.process is None:
                node.start()

        self._world.clock.after(self._rng.randint(0, self._rng.choice(self._pace.restart_us_max)), start)

    def committed(self) -> None:
        """A node learned of a commit."""
        if self._waits_for_commit:
            self._waits_for_commit = False
            self._world.clock.after(0, self._end_all)

    def _turn(self) -> None:
        if self._is_over:
            return
        name, happens = self._draws.choice(self._kinds)
        self._rng = Random(self._draws.random())
        if self._world.allows(self._number) and happens():
            self.counts[name] += 1
            self.done.append((self._number, name))
            if self._world.recorder is not None:
                self._world.recorder.fault(self._world.clock.now_us, None, name)
        self._number += 1
        self._world.clock.after(self._draws.randint(self._pace.period_us_min, self._period_us_max), self._turn)

    def _kill(self) -> bool:
        node = self._any_node()
        if node.process is None:
            return False
        self._world.trace.note(node.node_id, "is killed")
        node.kill()
        return True

    def _lose_power(self) -> bool:
        node = self._any_node()
        if node.process is None:
            return False
        self._world.trace.note(node.node_id, "loses power")
        node.lose_power()
        return True

    def _interrupt(self, *, loses_power: bool) -> bool:
        self._any_node().disk.interrupt_within(self._rng.randrange(self._pace.operations_max), loses_power=loses_power)
        return True

    def _all_down(self) -> bool:
        self._end_all()
        return True

    def _await_commit(self) -> bool:
        is_news = not self._waits_for_commit
        self._waits_for_commit = True
        return is_news

    def _end_all(self) -> None:
        self._world.trace.note(None, "the power of all nodes goes")
        for node in self._world.nodes.values():
            if node.process is not None:
                node.lose_power()

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

    def _resign(self) -> bool:
        leader = self._world.newest_leader()
        if leader is not None:
            assert leader.node_id is not None
            self._world.touch(self._world.nodes[leader.node_id])
            leader.host.resign(leader.host.epoch, self._world.clock.instant)
        return leader is not None

    def _shut_down(self) -> bool:
        node = self._any_node()
        if node.host is None:
            return False
        self._world.trace.note(node.node_id, "is asked to leave")
        self._world.touch(node)
        node.host.shutdown(self._pace.shutdown_ms, self._world.clock.instant)
        return True

    def _any_node(self) -> Node:
        return self._rng.choice(list(self._world.nodes.values()))

"""Kills nodes in their very first start, between two changes of their disks, and takes their power later.

What a start creates must be durable before anything relies on it. That includes the next start: it finds what the
killed process created, and cannot know whether it was synced. Nothing syncs it later by chance.

Source: ALICE (OSDI 2014): directories that were created and not synced; `pykraft.log.fs.make_directory`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from pykraft.sim.facts.facts import Facts
from pykraft.sim.invariants.watch import Watch
from pykraft.sim.machine.node import SimulatedNode

OPERATIONS_MAX: Final = 10
LATER_US_MAX: Final = 1_500_000


def plan(facts: Facts, watch: Watch, dice: Random) -> None:
    """Draw the nodes that this happens to."""
    for node in facts.nodes.values():
        if dice.random() < facts.scenario.course.first_kill_probability and int(node.node_id) not in facts.absent:
            plan_for(watch, node, dice, facts.clock.after)


def plan_for(
    watch: Watch, node: SimulatedNode, dice: Random, later: Callable[[int, Callable[[], None]], object]
) -> None:
    """Kill the next start of this node, whose disk is empty, in the middle; ``later`` plans its power loss."""
    node.disk.interrupt_within(dice.randrange(OPERATIONS_MAX), loses_power=False)
    later(dice.randrange(LATER_US_MAX), partial(_lose_power, watch, node))


def _lose_power(watch: Watch, node: SimulatedNode) -> None:
    watch.happened("kill then power loss", node)
    watch.trace.note(node.node_id, "loses power after it was killed in its first start")
    node.lose_power()

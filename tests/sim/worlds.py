"""A small, calm world, moved by hand, for tests of nodes, faults and invariants.

A world for tests of one fault family: the test calls its faults directly, with separate random streams.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random

from pykraft.sim.faults.harm import Harm
from pykraft.sim.machine.node import Process, SimulatedNode
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import ClusterSettings, MembershipSettings, QuorumSettings, Scenario

SEED_OF_THREE = 8
THREE = Scenario(
    cluster=ClusterSettings(voters=(3,), observers=(0,)),
    membership=MembershipSettings(formatted_probability=1),
    quorum=QuorumSettings(append_linger_ms=(0,)),
)
"""Worlds of three voters whose leader appends at once, without linger."""


def calm_world(seed: int = SEED_OF_THREE) -> World:
    """No faults and no proposals; nothing runs yet."""
    return World(seed, scenario=THREE)


def dynamic_world(seed: int = SEED_OF_THREE, *, observers: int = 0, newcomers: int = 0) -> World:
    """The same, and its three voters are formatted, not configured."""
    cluster = ClusterSettings(voters=(3,), observers=(observers,))
    membership = MembershipSettings(dynamic_probability=1, newcomers_max=newcomers)
    return World(seed, scenario=replace(THREE, cluster=cluster, membership=membership))


def started(world: World) -> World:
    """All its nodes run."""
    for node in world.nodes.values():
        node.start()
    return world


def started_world(seed: int = SEED_OF_THREE) -> World:
    """All nodes run; the rest is up to the test."""
    return started(calm_world(seed))


def led_world(seed: int = SEED_OF_THREE) -> tuple[World, Process]:
    """A leader is elected and has committed the first record of its epoch everywhere."""
    return led(calm_world(seed))


def led(world: World) -> tuple[World, Process]:
    """The same of any world in which nothing runs yet."""
    started(world)
    run_until(world, lambda: len(committed_nodes(world)) == len(world.nodes))
    leader = world.facts.newest_leader()
    assert leader is not None
    return world, leader


def committed_nodes(world: World) -> list[SimulatedNode]:
    return [node for node in world.nodes.values() if node.host is not None and node.host.status.high_watermark]


def run_until(world: World, is_done: Callable[[], bool], *, limit_us: int = 5_000_000) -> None:
    """Let the world go on until this holds."""
    limit_us += world.clock.now_us
    while not is_done():
        assert world.clock.now_us < limit_us, "it does not come to that"
        world.turn()


def run_for(world: World, duration_us: int) -> None:
    """Let the world go on for a while."""
    end_us = world.clock.now_us + duration_us
    run_until(world, lambda: world.clock.now_us >= end_us, limit_us=2 * duration_us + 1)


def harm_to(world: World, seed: int = 1) -> Harm:
    """A book of its own; nothing is planned."""
    return Harm(world, Random(seed))


def has_noted(world: World, text: str) -> bool:
    """True when some line of the trace says it."""
    return any(text in line for line in world.trace.lines)

"""A clock fault affects one machine, and ends with the faults."""

from __future__ import annotations

from pykraft.sim.faults.clock import ClockFaults
from pykraft.sim.machine.clock import WALL_START_MS
from tests.sim.faults.worlds import harm_to
from tests.sim.worlds import calm_world, run_for, started_world


def test_a_clock_is_fast_or_slow_until_it_is_set_right() -> None:
    world = started_world()
    harm = harm_to(world)
    family = ClockFaults(harm)
    for _ in range(9):
        assert family.kinds["clock skew"]()
    run_for(world, 1_000_000)
    true_ms = world.clock.instant.mono_ms
    shown = [node.clock.instant.mono_ms for node in world.nodes.values()]
    assert any(abs(each - true_ms) > 5 for each in shown)
    family.stop()
    run_for(world, 1_000_000)
    assert [node.clock.instant.mono_ms - each for node, each in zip(world.nodes.values(), shown, strict=True)] == (
        [world.clock.instant.mono_ms - true_ms] * 3
    )
    assert harm.counts["clock skew"] == 9


def test_wall_clocks_jump_both_ways() -> None:
    world = calm_world()
    family = ClockFaults(harm_to(world))
    shown = set()
    for _ in range(30):
        assert family.kinds["clock jump"]()
        shown |= {node.clock.instant.wall_ms for node in world.nodes.values()}
    assert min(shown) < WALL_START_MS < max(shown)
    assert {node.clock.instant.mono_ms for node in world.nodes.values()} == {0}
    family.stop()
    assert {node.clock.instant.wall_ms for node in world.nodes.values()} == {WALL_START_MS}

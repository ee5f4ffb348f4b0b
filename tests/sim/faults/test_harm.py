"""A fault is counted with the role of its node, and nothing happens after the end."""

from pykraft.sim.faults.harm import DOWN, role_of
from pykraft.sim.machine.trace import FaultInjected, Recorder
from pykraft.sim.run.world import World
from tests.sim.worlds import THREE, calm_world, harm_to, led_world, run_for, started_world


def test_kinds_are_counted_with_the_roles_of_the_nodes() -> None:
    world, leader = led_world()
    harm = harm_to(world)
    harm.happened("kill", world.nodes[leader.node_id])
    harm.happened("all down", *world.nodes.values())
    harm.happened("heal")
    harm.happened("fsync error", world.nodes[1], role="recovering")
    assert harm.counts == {"kill": 1, "all down": 1, "heal": 1, "fsync error": 1}
    assert harm.states["kill"] == {"leader": 1}
    assert harm.states["all down"] == {"leader": 1, "follower": 2}
    assert harm.states["heal"] == {}
    assert harm.states["fsync error"] == {"recovering": 1}


def test_a_node_without_a_process_is_down() -> None:
    assert role_of(calm_world().nodes[1]) == DOWN


def test_the_recorder_hears_of_each_node() -> None:
    recorder = Recorder()
    world = World(1, scenario=THREE, recorder=recorder)
    harm = harm_to(world)
    harm.happened("kill", world.nodes[1], world.nodes[2])
    harm.happened("heal")
    assert [(event.node_id, event.kind) for event in recorder.events if isinstance(event, FaultInjected)] == [
        (1, "kill"),
        (2, "kill"),
        (None, "heal"),
    ]


def test_nothing_that_was_planned_happens_after_the_end() -> None:
    world = started_world()
    harm, seen = harm_to(world), []
    harm.later(10, lambda: seen.append("before"))
    harm.later(1_000, lambda: seen.append("after"))
    run_for(world, 500)
    harm.end()
    run_for(world, 1_000)
    assert seen == ["before"]


def test_a_duration_is_within_one_of_the_limits() -> None:
    harm = harm_to(calm_world())
    drawn = {harm.within((3, 7)) for _ in range(200)}
    assert drawn == set(range(1, 8))
    assert harm.within((0,)) == 1


def test_who_is_paused_is_not_awake() -> None:
    world = started_world()
    harm = harm_to(world)
    for node in world.nodes.values():
        assert node.process is not None
        node.process.pause(1_000)
    assert harm.awake_node() is None

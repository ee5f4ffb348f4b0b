"""Links that are cut, flap or are slow, and connections that break at the worst moment; at the end all work."""

import pytest

from pykraft.sim.faults.network import NetworkFaults
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import NETWORK, ClusterSettings, Scenario
from tests.sim.worlds import harm_to, has_noted, led_world, run_for, run_until, started_world

CUTS = ("isolated", "one-way cut", "split", "star")


@pytest.mark.parametrize("kind", CUTS)
def test_links_are_cut_and_heal(kind: str) -> None:
    world = started_world()
    harm = harm_to(world)
    family = NetworkFaults(harm)
    assert not family.kinds["heal"]()
    while not world.network.cut_links:
        family.kinds[kind]()
    assert harm.counts[kind] == 1
    assert family.kinds["heal"]()
    assert world.network.cut_links == 0


@pytest.mark.parametrize(
    "kind", sorted(set(NETWORK) - {"lost frames", "duplicated request", "reordered frames", "old fetch"})
)
def test_a_single_node_has_no_links(kind: str) -> None:
    world = World(1, scenario=Scenario(cluster=ClusterSettings(voters=(1,), observers=(0,))))
    harm = harm_to(world)
    for _ in range(5):
        assert not NetworkFaults(harm).kinds[kind]()
    assert not harm.counts


def test_an_isolated_node_hears_and_is_heard_by_nobody() -> None:
    world = started_world()
    NetworkFaults(harm_to(world)).kinds["isolated"]()
    assert world.network.cut_links == 2 * len(world.nodes) - 1, "its link to itself counts once"


def test_a_link_flaps_for_a_while() -> None:
    world = started_world()
    family = NetworkFaults(harm_to(world))
    while not family.kinds["flapping"]():
        pass
    seen = set()
    for _ in range(3_000):
        run_for(world, 1_000)
        seen.add(world.network.cut_links)
    assert seen == {0, 2}
    assert world.network.cut_links == 0


@pytest.mark.parametrize("kind", ["slow link", "delay"])
def test_a_slow_link_works_again_after_a_while(kind: str) -> None:
    world, _ = led_world()
    harm = harm_to(world)
    family = NetworkFaults(harm)
    while not family.kinds[kind]():
        pass
    assert harm.counts[kind] == 1
    assert has_noted(world, "slower")
    world.users.begin()
    run_for(world, 3_000_000)
    run_until(world, lambda: world.facts.newest_leader() is not None)


@pytest.mark.parametrize("kind", ["lost frames", "duplicated request", "reordered frames"])
def test_a_connection_breaks_under_the_next_frame_and_the_quorum_goes_on(kind: str) -> None:
    world, _ = led_world()
    world.users.begin()
    harm = harm_to(world)
    family = NetworkFaults(harm)
    for _ in range(5):
        before = harm.counts[kind]
        assert family.kinds[kind]()
        run_until(world, lambda before=before: harm.counts[kind] > before)  # type: ignore[misc]
    acknowledged = world.users.acknowledged
    run_until(world, lambda: world.users.acknowledged > acknowledged)


def test_an_old_fetch_reaches_a_leader_that_its_sender_has_left() -> None:
    world, leader = led_world()
    world.users.begin()
    harm = harm_to(world)
    epoch = leader.host.status.epoch
    assert NetworkFaults(harm).kinds["old fetch"]()
    run_until(world, lambda: harm.counts["old fetch"] == 1)
    assert harm.states["old fetch"].total() == 1
    newest = world.facts.newest_leader()
    assert max(world.facts.platters.election(node).epoch for node in world.nodes.values()) > epoch
    assert newest is not None


def test_in_the_end_nothing_is_cut_slow_or_held_back() -> None:
    world, _ = led_world()
    world.users.begin()
    harm = harm_to(world)
    family = NetworkFaults(harm)
    for kind in (*NETWORK, *NETWORK):
        family.kinds[kind]()
        run_for(world, 20_000)
    harm.end()
    family.stop()
    assert world.network.cut_links == 0
    acknowledged = world.users.acknowledged
    run_until(world, lambda: world.users.acknowledged > acknowledged)


def test_what_a_leader_sends_trickles_until_the_connection_ends() -> None:
    world, leader = led_world()
    harm = harm_to(world)
    family = NetworkFaults(harm)
    while not family.kinds["trickle"]():
        pass
    assert harm.counts["trickle"] == 1
    assert not world.network.is_usual
    run_until(world, lambda: world.network.is_usual)
    assert has_noted(world, f"gets 10 bytes a second from {leader.node_id}")


def test_connections_break_again_and_again_and_the_leader_stays() -> None:
    world, leader = led_world()
    world.users.begin()
    epoch = leader.host.status.epoch
    harm = harm_to(world)
    family = NetworkFaults(harm)
    while not (
        family.kinds["flapping connections"]() and has_noted(world, f" {leader.node_id}  loses its connections")
    ):
        pass
    assert harm.counts["flapping connections"] >= 1
    run_for(world, 3_000_000)
    newest = world.facts.newest_leader()
    assert newest is not None
    assert newest.host.status.epoch == epoch


def test_a_leader_that_refuses_all_others_is_replaced_and_listens_again() -> None:
    world, leader = led_world()
    world.users.begin()
    epoch = leader.host.status.epoch
    family = NetworkFaults(harm_to(world))
    others = {node_id for node_id in world.nodes if node_id != leader.node_id}
    while len({(source, target) for source, target in world.network.refusing if target == leader.node_id}) < len(
        others
    ):
        family.kinds["refused connections"]()
    run_until(world, lambda: (newest := world.facts.newest_leader()) is not None and newest.host.status.epoch > epoch)
    run_until(world, lambda: not world.network.refusing)


def test_a_listener_is_the_leader_or_any_node() -> None:
    world = started_world()
    family = NetworkFaults(harm_to(world))
    assert family.kinds.keys() == set(NETWORK)
    while not family.kinds["refused connections"]():
        pass
    assert world.network.refusing, "nobody leads yet"

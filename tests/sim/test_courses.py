"""The courses of Kafka's ``RaftEventSimulationTest`` as scripted worlds, with all oracles.

Numbers count from 1. Progress is measured by high watermarks, as there. A seed decides timeouts, latencies and what
clients do.

Source: Kafka ``RaftEventSimulationTest`` (canElectInitialLeader to leadershipWillNotChangeDuringNetworkPartition).
"""

from collections.abc import Iterable, Sequence
from itertools import permutations

import pytest

from pykraft.sim.machine.node import Process, SimulatedNode
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import ClusterSettings, MembershipSettings, Pace, Scenario
from tests.sim.worlds import run_for, run_until

pytestmark = pytest.mark.sim

NEVER_US = 10**12
STAR = ((1, 3), (2, 4), (3, 4), (3, 5), (4, 5))
"""The links that work in Kafka's star partition; 3 and 4 reach a majority each way, 5 through both."""
seeds = pytest.mark.parametrize("seed", [1, 2])


def begun(seed: int, voters: int, observers: int = 0) -> World:
    """No harm but the script's; who goes down stays down. Clients work."""
    cluster = ClusterSettings(voters=(voters,), observers=(observers,))
    membership, pace = MembershipSettings(formatted_probability=1), Pace(restart_us_max=(NEVER_US,))
    world = World(seed, scenario=Scenario(cluster=cluster, membership=membership, pace=pace, faults={}))
    for node in world.nodes.values():
        node.start()
    world.users.begin()
    return world


def leader_of(world: World) -> Process:
    """The newest leader, once there is one that has committed something."""
    run_until(
        world, lambda: (leader := world.facts.newest_leader()) is not None and bool(leader.host.status.high_watermark)
    )
    leader = world.facts.newest_leader()
    assert leader is not None
    return leader


def reached(world: World, ids: Iterable[int]) -> int:
    """What the slowest of these knows to be committed."""
    return min((host.status.high_watermark or 0) if (host := world.nodes[node_id].host) else 0 for node_id in ids)


def all_reach(world: World, ids: Iterable[int], offset: int) -> None:
    chosen = list(ids)
    run_until(world, lambda: reached(world, chosen) >= offset, limit_us=20_000_000)


def all_go_on(world: World) -> None:
    """Everybody catches up with the fastest, and ten records more; then the oracles of the end look."""
    world.watch.faults_ended()
    most = max(host.status.high_watermark or 0 for host in world.facts.hosts())
    all_reach(world, world.nodes, most + 10)
    world.watch.ended()


def cut_all_but(world: World, links: Sequence[tuple[int, int]]) -> None:
    """Of the links between voters only these work; observers keep theirs."""
    for one, other in permutations(range(1, world.voter_count + 1), 2):
        if tuple(sorted((one, other))) not in links:
            world.network.cut(one, other)


def others(world: World, *left_out: int) -> list[int]:
    return [node_id for node_id in world.nodes if node_id not in left_out]


@pytest.mark.parametrize(("voters", "observers"), [(1, 0), (2, 1), (3, 0), (4, 0), (5, 5)])
def test_initial_election(voters: int, observers: int) -> None:
    world = begun(1, voters, observers)
    leader = leader_of(world)
    all_reach(world, world.nodes, 10)
    assert {world.facts.platters.election(node).leader_id for node in world.facts.voters()} == {leader.node_id}
    all_go_on(world)


@pytest.mark.parametrize("is_graceful", [True, False])
@pytest.mark.parametrize(("voters", "observers"), [(3, 0), (5, 2)])
def test_the_leader_fails(voters: int, observers: int, is_graceful: bool) -> None:
    world = begun(1, voters, observers)
    former = world.nodes[leader_of(world).node_id]
    all_reach(world, world.nodes, 10)
    if is_graceful:
        assert former.host is not None
        former.host.shutdown(500, former.clock.instant)
        run_until(world, lambda: former.process is None)
    else:
        former.kill()
    all_reach(world, others(world, former.node_id), 20)
    former.start()
    all_go_on(world)


@pytest.mark.parametrize("voters", [1, 3, 5])
def test_all_lose_their_power_and_a_majority_returns(voters: int) -> None:
    world = begun(1, voters)
    leader_of(world)
    all_reach(world, world.nodes, 10)
    before = max(host.status.high_watermark or 0 for host in world.facts.hosts())
    for node in world.nodes.values():
        node.lose_power()
    majority = range(1, voters // 2 + 2)
    for node_id in majority:
        world.nodes[node_id].start()
    all_reach(world, majority, before + 10)


@pytest.mark.conformance("H87")
@seeds
def test_the_leader_is_cut_off(seed: int) -> None:
    world = begun(seed, 5, 1)
    leader = leader_of(world)
    cut_off(world, leader.node_id)
    all_reach(world, others(world, leader.node_id), 20)
    world.network.heal()
    all_go_on(world)


@seeds
def test_a_majority_that_hears_itself_goes_on(seed: int) -> None:
    world = begun(seed, 5)
    leader_of(world)
    all_reach(world, world.nodes, 5)
    for one, other in ((1, 3), (1, 4), (1, 5), (2, 3), (2, 4), (2, 5)):
        world.network.cut(one, other)
        world.network.cut(other, one)
    end_offset = max(host.status.log_end_offset for host in world.facts.hosts())
    all_reach(world, (3, 4, 5), 2 * end_offset)
    assert reached(world, (3, 4, 5)) > max(reached(world, [1]), reached(world, [2]))
    world.network.heal()
    all_go_on(world)


@seeds
def test_leaders_are_cut_off_one_after_the_other(seed: int) -> None:
    world = begun(seed, 3, 1)
    first = leader_of(world)
    cut_off(world, first.node_id)
    run_until(world, lambda: leader_of(world) is not first)
    second = leader_of(world)
    world.network.heal()
    cut_off(world, second.node_id)
    all_reach(world, others(world, second.node_id), reached(world, [second.node_id]) + 10)
    world.network.heal()
    all_go_on(world)


@seeds
def test_a_node_loses_its_disk_and_others_elect_a_leader_before_it_returns(seed: int) -> None:
    world = begun(seed, 3, 1)
    victim = world.nodes[leader_of(world).node_id]
    all_reach(world, world.nodes, 10)
    epoch = world.facts.platters.election(victim).epoch
    victim.kill()
    victim.disk.wipe()
    world.watch.wiped(victim)
    run_until(world, lambda: committed_later(world, epoch, victim))
    victim.start()
    all_go_on(world)


@pytest.mark.conformance("H1")
@seeds
def test_one_leader_in_a_star_from_the_start(seed: int) -> None:
    cluster, membership = ClusterSettings(voters=(5,), observers=(0,)), MembershipSettings(formatted_probability=1)
    world = World(seed, scenario=Scenario(cluster=cluster, membership=membership, faults={}))
    cut_all_but(world, STAR)
    for node in world.nodes.values():
        node.start()
    world.users.begin()
    leader = leader_of(world)
    assert leader.node_id in (3, 4, 5)
    stays(world, leader)


@pytest.mark.conformance("H91")
@seeds
def test_a_leader_stays_when_links_are_cut_around_it(seed: int) -> None:
    world = begun(seed, 5, 1)
    leader = leader_of(world)
    all_reach(world, world.nodes, 5)
    names = {3: leader.node_id, leader.node_id: 3}
    star = [tuple(sorted((names.get(one, one), names.get(other, other)))) for one, other in STAR]
    cut_all_but(world, [(one, other) for one, other in star])
    stays(world, leader)


def cut_off(world: World, node_id: int) -> None:
    for other in world.nodes:
        world.network.cut(node_id, other)
        world.network.cut(other, node_id)


def committed_later(world: World, epoch: int, victim: SimulatedNode) -> bool:
    """The others have committed a record of an epoch in which the victim had no part."""
    committed = world.facts.committed.entries
    return bool(committed) and committed[-1].epoch > epoch and victim.process is None


def stays(world: World, leader: Process) -> None:
    """Its majority makes progress for a long time, and nobody opens an epoch."""
    epoch = leader.host.status.epoch
    run_for(world, 6_000_000)
    assert (leader.host.status.role, leader.host.status.epoch) == ("leader", epoch)
    assert max(world.facts.platters.election(node).epoch for node in world.facts.voters()) == epoch
    assert (leader.host.status.high_watermark or 0) >= 20

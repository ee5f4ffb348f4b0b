"""A world is determined by its seed, survives its faults, and reports violations."""

from dataclasses import replace

import pytest

from pykraft.core.raft import Raft
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.votes import OneVote
from pykraft.sim.machine.kafka_rules import KafkaRaft
from pykraft.sim.run.simulation import simulate
from pykraft.sim.run.world import Outcome, World
from pykraft.sim.scenario.file import load
from pykraft.sim.scenario.scenario import ClusterSettings, Course, QuorumSettings, Scenario, Storage
from tests.sim.worlds import calm_world, led_world, run_until, started_world

QUICK_SEED = 2


def test_the_same_seed_is_the_same_world_and_another_seed_another() -> None:
    one, again, other = (World(seed).run() for seed in (QUICK_SEED, QUICK_SEED, QUICK_SEED + 1))
    assert one == again
    assert one.digest != other.digest


def test_a_run_tells_what_it_was_made_of() -> None:
    told: list[str] = []
    outcome = World(QUICK_SEED, print_line=told.append).run()
    assert (outcome.seed, outcome.voters, outcome.observers) == (QUICK_SEED, 2, 0)
    assert outcome.committed >= outcome.acknowledged > 0
    assert outcome.epochs >= 1
    assert outcome.faults
    assert outcome.virtual_ms >= 6_000
    assert any("the faults end" in line for line in told)


@pytest.mark.parametrize(("voters", "absent", "expected"), [(3, 0, {3}), (3, 1, {2}), (1, 0, set())])
def test_one_of_several_voters_never_leads_and_all_others_follow_kafkas_rules(
    voters: int, absent: int, expected: set[int]
) -> None:
    cluster = ClusterSettings(voters=(voters,), observers=(1,), absent=absent)
    quorum = QuorumSettings(never_leads_probability=1)
    nodes = World(QUICK_SEED, scenario=Scenario(cluster=cluster, quorum=quorum)).nodes
    assert {node_id for node_id, node in nodes.items() if node.config.raft.never_leads} == expected
    ours = expected or set(nodes)
    assert {node_id for node_id, node in nodes.items() if node.core is Raft} == ours
    assert all(node.core is KafkaRaft for node_id, node in nodes.items() if node_id not in ours)


def test_worlds_differ_in_size() -> None:
    sizes = {(World(seed).voter_count, World(seed).observer_count) for seed in range(60)}
    assert {voters for voters, _ in sizes} == {1, 2, 3, 4, 5}
    assert {observers for _, observers in sizes} == {0, 1, 2}


def test_the_newest_leader_is_the_one_of_the_highest_epoch() -> None:
    world, former = led_world()
    for node in world.nodes.values():
        world.network.cut(former.node_id, int(node.node_id))
        world.network.cut(int(node.node_id), former.node_id)

    def leaders() -> set[int]:
        return {int(node.node_id) for node in world.nodes.values() if node.host and node.host.status.role == "leader"}

    run_until(world, lambda: bool(leaders() - {former.node_id}))
    newest = world.facts.newest_leader()
    assert newest is not None
    assert newest.host.status.epoch > former.host.status.epoch


def test_a_world_that_does_not_heal_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(QUICK_SEED, scenario=Scenario(course=Course(faults_us=100_000, heal_us=300_000)))
    monkeypatch.setattr(world.network, "heal", lambda: world.network.cut(1, 2))
    monkeypatch.setattr(world.faults, "ended", lambda node: None)
    world.network.cut(1, 2)
    with pytest.raises(ViolationError, match="Healing: no progress"):
        world.run()


def test_a_world_in_which_nothing_happens_is_a_failure() -> None:
    with pytest.raises(ViolationError, match="Liveness"):
        calm_world().turn()


def test_a_run_that_does_not_heal_and_is_not_asked_to_ends_at_its_bound() -> None:
    scenario = Scenario(course=Course(faults_us=100_000, heal_us=1_000))
    assert 101 <= World(QUICK_SEED, scenario=scenario, oracles=()).run().virtual_ms < 150


def test_any_oracle_watches_alone() -> None:
    assert [type(oracle) for oracle in World(QUICK_SEED, oracles=[OneVote]).watch.oracles] == [OneVote]


def test_what_is_committed_is_what_leaders_count() -> None:
    world, leader = led_world()
    node = world.nodes[leader.node_id]
    assert world.facts.committed.entries == world.facts.ledger(node).entries
    run_until(world, lambda: world.facts.platters.end_offset(node) > 0)
    assert world.facts.platters.entry_at(node, 0) == world.facts.committed.at(0)


def test_oracles_look_at_the_nodes_that_something_happened_to(monkeypatch: pytest.MonkeyPatch) -> None:
    world = started_world()
    seen: list[int] = []
    monkeypatch.setattr(world.watch, "event_over", lambda node: seen.append(int(node.node_id)))
    world.clock.after(0, lambda: world.watch.touch(world.nodes[2]))
    world.watch.touched.clear()
    world.turn()
    world.clock.after(0, lambda: None)
    world.turn()
    assert seen == [2]


def test_an_absent_voter_never_starts_and_nobody_waits_for_it() -> None:
    scenario = replace(load(["bandwidth"]), course=Course(faults_us=1_000_000, heal_us=20_000_000, progress_records=2))
    world = World(3, scenario=scenario)
    outcome = world.run()
    assert world.facts.absent == {3}
    assert world.nodes[3].process is None
    assert outcome.committed >= 2


def test_nodes_keep_as_much_in_memory_as_was_drawn_and_the_bulk_lane_is_as_slow() -> None:
    scenario = Scenario(quorum=QuorumSettings(recent_size_bytes_max=(0,)), storage=Storage(bulk_factor=(7,)))
    world = World(3, scenario=scenario)
    assert {node.config.log.recent_size_bytes_max for node in world.nodes.values()} == {0}
    assert {node.surroundings.bulk_factor for node in world.nodes.values()} == {7}
    world.run(until_us=500_000)


@pytest.mark.sim
@pytest.mark.parametrize("seed", [40139, 40539, 40715, 40738, 43892, 43970])
def test_worlds_in_which_a_campaign_found_the_simulator_wrong_pass(seed: int) -> None:
    """See docs/simulation-reference.md for what each of them found."""
    result = simulate(seed, scenario=load(["all"]))
    assert isinstance(result, Outcome), result.reason

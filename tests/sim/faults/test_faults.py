"""Each world has its own kinds and pace, each decision its number and dice; in the end all nodes run and links work."""

from dataclasses import replace
from random import Random

from pykraft.sim.faults import Faults
from pykraft.sim.faults.faults import NUMBERS_PER_PLAN, FaultPlan, own_plans
from pykraft.sim.faults.membership import MembershipFaults
from pykraft.sim.run.world import World
from pykraft.sim.scenario.file import load
from pykraft.sim.scenario.scenario import KINDS, OF_THEIR_OWN, Pace
from tests.sim.worlds import THREE, calm_world, harm_to, run_for, run_until, started, started_world


def test_worlds_draw_kinds_of_their_own() -> None:
    world = calm_world()
    drawn = {tuple(Faults(world, Random(seed))._kinds) for seed in range(50)}
    assert len(drawn) > 40
    assert all("heal" in kinds for kinds in drawn)


def test_kinds_without_weight_are_not_drawn_and_without_any_nothing_happens() -> None:
    quiet = World(1, scenario=replace(THREE, faults={"kill": 0.0, "resign": 1.0}))
    assert set(quiet.faults._kinds) == {"resign"}
    still = World(1, scenario=replace(THREE, faults={}))
    for node in still.nodes.values():
        node.start()
    still.faults.begin()
    run_for(still, 1_000_000)
    assert not still.faults.counts
    assert not still.faults.done


def test_only_the_decisions_that_are_asked_for_are_carried_out() -> None:
    scenario = replace(THREE, pace=Pace(period_us_max=(100_000,)))
    whole = World(3, scenario=scenario)
    part = World(3, scenario=replace(scenario, pace=replace(scenario.pace, only=(1, 4))))
    for world in (whole, part):
        for node in world.nodes.values():
            node.start()
        world.faults.begin()
        run_for(world, 1_000_000)
    assert {number for number, _ in part.faults.done} <= {1, 4}
    assert len(whole.faults.done) > len(part.faults.done)


def test_faults_are_counted_until_they_stop_and_then_all_is_well() -> None:
    world = World(5, scenario=replace(load(["all"]), cluster=THREE.cluster))
    for node in world.nodes.values():
        node.start()
    world.users.begin()
    world.faults.begin()
    run_for(world, 3_000_000)
    assert world.faults.counts
    assert world.faults.counts.keys() == world.faults.states.keys()
    world.faults.stop()
    before = world.faults.counts.copy()
    assert world.network.cut_links == 0
    run_until(world, lambda: len(world.facts.hosts()) == 3)
    run_for(world, 1_500_000)
    assert world.faults.counts == before


def test_a_wiped_voter_starts_only_when_it_may() -> None:
    world = started_world()
    run_until(world, lambda: world.facts.newest_leader() is not None)
    node = world.nodes[1]
    world.facts.atlas.wiped(node, 1_000)
    node.kill()
    run_for(world, 2_000_000)
    assert node.process is None
    world.facts.atlas.wiped(node, 0)
    run_until(world, lambda: node.process is not None)


def lived(only: tuple[int, ...] | None, *, first: int = 0) -> tuple[list[tuple[int, str]], list[float]]:
    """What was decided within a second, and the first throw of the dice of each that was carried out."""
    world = started(World(3, scenario=replace(THREE, pace=Pace(only=only))))
    dice: list[Random] = []
    thrown: list[float] = []
    done: list[tuple[int, str]] = []

    def act() -> bool:
        thrown.append(dice[-1].random())
        return len(thrown) != 2

    plan = FaultPlan(
        harm_to(world),
        {"kill": act},
        {"kill": 1.0},
        draws=Random(1),
        period_us_max=100_000,
        done=done,
        use_dice=dice.append,
        first_number=first,
    )
    plan.go_on()
    run_for(world, 1_000_000)
    return done, thrown


def test_every_decision_has_a_number_and_what_did_nothing_is_not_kept() -> None:
    done, thrown = lived(None)
    assert [number for number, _ in done][:3] == [0, 2, 3]
    assert len(thrown) == len(done) + 1


def test_some_of_them_are_what_they_were_and_numbers_of_other_plans_are_not_meant() -> None:
    _, whole = lived(None)
    done, part = lived((1, 3, NUMBERS_PER_PLAN + 2))
    assert ([number for number, _ in done], part) == ([1], [whole[1], whole[3]])
    done, part = lived((1, NUMBERS_PER_PLAN + 2), first=NUMBERS_PER_PLAN)
    assert ([number for number, _ in done], part) == ([NUMBERS_PER_PLAN + 2], [whole[2]])


def test_each_kind_has_one_act() -> None:
    families = calm_world().faults._families
    assert sorted(kind for family in families for kind in family.kinds) == sorted(KINDS)
    for family in families:
        family.stop()


def test_names_and_acts_are_the_same() -> None:
    harm = harm_to(calm_world())
    plans = own_plans(harm, MembershipFaults(harm))
    assert tuple(tuple(plan.family.kinds) for plan in plans) == OF_THEIR_OWN
    assert all(plan.period_us_min <= plan.period_us_max for plan in plans)


def test_a_world_that_draws_no_such_kind_stays_what_it_was() -> None:
    scenario = load(["default"])
    scenario = replace(scenario, course=replace(scenario.course, faults_us=1_000_000))
    without = World(3, scenario=scenario).run()
    unlikely = replace(scenario, faults={**scenario.faults, "forged frames": 1e-9})
    assert World(3, scenario=unlikely).run().digest == without.digest


def test_a_world_that_draws_one_has_it() -> None:
    plans = World(3, scenario=load(["forged"])).faults._plans
    assert {"forged frames": 1.0} in [plan._kinds for plan in plans]

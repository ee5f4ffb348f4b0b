"""The other clients of a world begin together, and a world waits until its producers are served.

A client that asks all nodes gets an answer from each and changes nothing.
"""

from __future__ import annotations

from dataclasses import replace

from pykraft.sim.facts.facts import Facts
from pykraft.sim.facts.visit import Visit, VisitQuestion
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import SimulatedNode
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import Course, ProducerSettings, Work
from tests.sim.worlds import SEED_OF_THREE, THREE, led, run_for, run_until


def test_producers_are_served_when_each_was_acknowledged_after_the_faults() -> None:
    scenario = replace(THREE, producers=ProducerSettings(count=(2,)), course=Course(faults_us=1_000_000))
    world, _ = led(World(SEED_OF_THREE, scenario=scenario))
    world.others.begin()
    assert len(world.others.producers) == 2
    run_until(world, lambda: all(each.acknowledged_us > 0 for each in world.others.producers))
    assert not world.others.are_served
    run_until(world, lambda: world.others.are_served)
    assert all(each.acknowledged_us > 1_000_000 for each in world.others.producers)


def test_a_world_without_producers_waits_for_none() -> None:
    assert World(SEED_OF_THREE, scenario=THREE).others.are_served


class Listens(Invariant):
    """Keeps all visits."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.questions: list[Visit] = []
        self.told: list[Visit] = []

    def visited(self, node: SimulatedNode, visit: Visit) -> None:
        """Keep it."""
        assert node.process is visit.process
        (self.questions if visit.is_open else self.told).append(visit)


def visited(probability: float) -> tuple[World, Listens]:
    scenario = replace(THREE, work=Work(visitor_probability=probability))
    world, _ = led(World(SEED_OF_THREE, scenario=scenario, oracles=[Listens]))
    [found] = world.watch.oracles
    assert isinstance(found, Listens)
    return world, found


def test_each_question_is_asked_and_answered() -> None:
    world, found = visited(1.0)
    world.others.visitor.begin()
    run_until(world, lambda: {each.question for each in found.told} == {*VisitQuestion})
    assert all(each.answer is not None for each in found.told)
    impossible = [each.answer for each in found.told if each.question is VisitQuestion.ADD_IMPOSSIBLE_VOTER]
    assert all(answer is not None and answer["error_code"] for answer in impossible)
    for node in world.nodes.values():
        node.kill()
    asked = len(found.questions)
    run_for(world, 300_000)
    assert len(found.questions) <= asked + 2 * 3, "a turn has one question or two"


def test_a_world_may_have_none() -> None:
    world, found = visited(0.0)
    world.others.visitor.begin()
    run_for(world, 500_000)
    assert not found.questions

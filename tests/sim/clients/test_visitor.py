"""A client that asks all nodes gets an answer from each and changes nothing."""

from __future__ import annotations

from dataclasses import replace

from pykraft.sim.facts.facts import Facts
from pykraft.sim.facts.visit import Visit, VisitQuestion
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import SimulatedNode
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import Work
from tests.sim.worlds import SEED_OF_THREE, THREE, led, run_for, run_until


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

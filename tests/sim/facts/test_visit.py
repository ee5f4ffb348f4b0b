"""A request is open until it is answered or its process has ended."""

from __future__ import annotations

from pykraft.sim.facts.visit import Visit, VisitQuestion
from tests.sim.worlds import led_world


def test_a_visit_is_open_while_an_answer_may_come() -> None:
    world, leader = led_world()
    answered, broken = (Visit(question=VisitQuestion.DESCRIBE_QUORUM, process=leader, asked_us=0) for _ in range(2))
    assert answered.is_open
    answered.answer = {"error_code": 0}
    assert not answered.is_open
    refused = Visit(question=VisitQuestion.DESCRIBE_QUORUM, process=leader, asked_us=0, is_refused=True)
    assert not refused.is_open
    assert broken.is_open
    world.nodes[leader.node_id].kill()
    assert not broken.is_open

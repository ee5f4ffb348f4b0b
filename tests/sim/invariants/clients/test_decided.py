"""A client that waits too long or gets two answers is found."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.clients.decided import EveryProposalIsDecided
from tests.sim.invariants.fakes import node, operation, view, world


def oracle(now_us: int = 9_000_000, **host: Any) -> EveryProposalIsDecided:
    """One that watches a world of one node, which leads epoch 1 unless something else is said."""
    where = world(now_us=now_us)
    where.nodes = {1: node(**{"role": "leader", "high_watermark": 10, **host})}
    return EveryProposalIsDecided(where)


def test_answers_in_time_new_calls_and_dead_processes_are_accepted() -> None:
    made = oracle()
    answered = operation(1)
    for each in (answered, operation(2, invoked_us=8_000_000), operation(3, is_alive=lambda: False)):
        made.proposed(each)
    made.decided(answered)
    made.ended()


def test_whoever_waits_too_long_for_an_offset_is_found() -> None:
    made = oracle()
    made.changed(node(), view("leader", high_watermark=9), view("leader", high_watermark=10))
    made.proposed(operation(1))
    with pytest.raises(
        ViolationError,
        match=r"operation 1, proposed at node 1 at 0.000 ms, has no answer at 9000.000 ms: "
        r"it has had no offset for 9000.000 ms",
    ):
        made.ended()


def test_whoever_waits_behind_a_leader_that_commits_nothing_is_found() -> None:
    made = oracle()
    made.facts.clock.now_us = 5_999_000
    made.changed(node(), view("leader", high_watermark=9), view("leader", high_watermark=10))
    made.facts.clock.now_us = 9_000_000
    made.changed(node(), view("leader", high_watermark=10), view("leader", high_watermark=10, has_fetched=True))
    made.changed(node(), view("leader", high_watermark=10), view("follower", high_watermark=11))
    made.proposed(operation(1, base_offset=10))
    with pytest.raises(ViolationError, match=r"its leader has committed nothing for 3001.000 ms"):
        made.ended()


def test_who_waits_for_a_long_log_before_its_own_records_is_accepted() -> None:
    made = oracle()
    made.facts.clock.now_us = 6_001_000
    made.changed(node(), view("leader", high_watermark=9), view("leader", high_watermark=10))
    made.facts.clock.now_us = 9_000_000
    made.proposed(operation(1, base_offset=10))
    made.ended()


def test_an_answer_is_due_as_soon_as_the_high_watermark_is_beyond() -> None:
    made = oracle(high_watermark=11)
    made.proposed(operation(1, base_offset=10, invoked_us=9_000_000))
    with pytest.raises(ViolationError, match=r"the high watermark is 11, beyond its end 11"):
        made.ended()


def test_a_leader_that_knows_no_high_watermark_owes_no_answer_yet() -> None:
    made = oracle(high_watermark=None)
    made.proposed(operation(1, base_offset=10, invoked_us=9_000_000))
    made.ended()


@pytest.mark.parametrize("host", [{"role": "follower"}, {"epoch": 2}])
def test_an_answer_is_due_as_soon_as_the_leadership_is_over(host: dict[str, Any]) -> None:
    made = oracle(**host)
    made.proposed(operation(1, invoked_us=9_000_000))
    with pytest.raises(ViolationError, match=r"the node does not lead epoch 1 any more"):
        made.ended()


def test_a_second_answer_is_found() -> None:
    made, asked = EveryProposalIsDecided(world()), operation(1)
    made.proposed(asked)
    made.decided(asked)
    with pytest.raises(ViolationError, match="operation 1 of node 1 is answered twice"):
        made.decided(asked)

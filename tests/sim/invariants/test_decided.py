"""A client that waits too long, or is answered twice, is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.decided import EveryProposalIsDecided
from tests.sim.invariants.fakes import operation, world


def test_answers_in_time_new_calls_and_dead_processes_are_accepted() -> None:
    made = EveryProposalIsDecided(world(now_us=9_000_000))
    answered = operation(1)
    for each in (answered, operation(2, invoked_us=8_000_000), operation(3, is_alive=lambda: False)):
        made.proposed(each)
    made.decided(answered)
    made.ended()


def test_whoever_waits_too_long_is_found() -> None:
    made = EveryProposalIsDecided(world(now_us=9_000_000))
    made.proposed(operation(1))
    with pytest.raises(
        ViolationError, match=r"operation 1, proposed at node 1 at 0.000 ms, has no answer at 9000.000 ms"
    ):
        made.ended()


def test_a_second_answer_is_found() -> None:
    made, asked = EveryProposalIsDecided(world()), operation(1)
    made.proposed(asked)
    made.decided(asked)
    with pytest.raises(ViolationError, match="operation 1 of node 1 is answered twice"):
        made.decided(asked)

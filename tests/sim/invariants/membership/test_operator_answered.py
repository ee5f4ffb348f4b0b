"""A leader that does not answer an operator in time is found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pykraft.sim.facts.members import VoterRequest
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.membership.operator_answered import OperatorsAreAnswered
from tests.sim.invariants.fakes import node, view, world

BOUND_US = 10_000_000


def leading() -> Any:
    made = node(1, role="leader")
    made.process.is_running = True
    made.disk.io_errors = SimpleNamespace(stalled_until_us=0)
    return made


def asked_of(leader: Any) -> tuple[Any, OperatorsAreAnswered, VoterRequest]:
    where = world()
    made = OperatorsAreAnswered(where)
    asked = VoterRequest(message=cast(Any, "add 4"), process=leader.process, then=lambda _: None, since=0)
    made.asked(asked)
    return where, made, asked


def test_an_answer_in_time_is_accepted_and_none_from_who_is_gone() -> None:
    leader = leading()
    where, made, asked = asked_of(leader)
    where.clock.now_us = BOUND_US
    made.after_event(leader, view("leader"))
    made.answered(asked)
    where.clock.now_us = 2 * BOUND_US
    made.after_event(leader, view("leader"))
    made.asked(asked)
    leader.process.is_running = False
    where.clock.now_us = 4 * BOUND_US
    made.after_event(leader, view("leader"))


def test_nobody_waits_for_another_process_or_a_disk_that_stands_still() -> None:
    leader = leading()
    where, made, _ = asked_of(leader)
    where.clock.now_us = 2 * BOUND_US
    made.after_event(leading(), view("leader"))
    leader.disk.io_errors.stalled_until_us = BOUND_US
    made.after_event(leader, view("leader"))


def test_one_that_waits_too_long_is_found() -> None:
    leader = leading()
    where, made, _ = asked_of(leader)
    where.clock.now_us = BOUND_US + 1
    with pytest.raises(ViolationError, match="node 1 has not answered add 4 in 10000001 us"):
        made.after_event(leader, view("leader"))

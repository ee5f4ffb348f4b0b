"""A quorum that a forger slows down or beheads is found; one with other troubles is not judged."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.sim.facts.history import OperationOutcome
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.liveness.forgers import LOOK_US, QuorumOutlastsForgers
from pykraft.sim.scenario.scenario import Scenario
from tests.sim.invariants.fakes import node, view, world

SECOND_US = 1_000_000


def of(**others: float) -> QuorumOutlastsForgers:
    made = world()
    made.scenario = Scenario(faults={"forged frames": 1, **others})
    return QuorumOutlastsForgers(made)


def acknowledged(count: int, outcome: OperationOutcome = OperationOutcome.COMMITTED) -> Any:
    return SimpleNamespace(answer=outcome, values=(b"",) * count)


def passes(oracle: QuorumOutlastsForgers, seconds: float, rate: int) -> None:
    """So much time passes, in which so many values a second are acknowledged."""
    clock, end_us = oracle.facts.clock, oracle.facts.clock.now_us + round(seconds * SECOND_US)
    while clock.now_us < end_us:
        oracle.decided(acknowledged(rate // 10))
        oracle.after_event(node(1), view())
        oracle.after_event(node(1), view())
        clock.now_us += 100_000


def forges(oracle: QuorumOutlastsForgers, *, is_forging: bool = True) -> None:
    oracle.facts.claims.is_forging = is_forging
    oracle.after_event(node(1), view())


def test_less_than_half_of_the_quiet_rate_is_noticed() -> None:
    oracle = of()
    passes(oracle, 3, 100)
    forges(oracle)
    oracle.decided(acknowledged(1_000, OperationOutcome.UNKNOWN))
    passes(oracle, 3, 40)
    with pytest.raises(ViolationError, match="values were acknowledged"):
        forges(oracle, is_forging=False)


def test_half_is_enough() -> None:
    oracle = of()
    passes(oracle, 3, 100)
    forges(oracle)
    passes(oracle, 3, 60)
    forges(oracle, is_forging=False)


def test_where_something_else_may_happen_nothing_is_judged() -> None:
    oracle = of(kill=0.5)
    passes(oracle, 3, 100)
    forges(oracle)
    passes(oracle, 3, 0)
    for epoch in (1, 2):
        oracle.changed(node(1), view(), view("leader", epoch))
    forges(oracle, is_forging=False)


def test_a_short_time_says_nothing() -> None:
    oracle = of()
    passes(oracle, 3, 100)
    forges(oracle)
    passes(oracle, 1, 0)
    forges(oracle, is_forging=False)


def test_one_leader_may_be_elected_and_no_second_one() -> None:
    oracle = of()
    passes(oracle, 1, 100)
    oracle.changed(node(1), view(), view("leader"))
    forges(oracle)
    oracle.changed(node(1), view(), view("leader", 2))
    oracle.changed(node(1), view("leader", 2), view("leader", 2))
    with pytest.raises(ViolationError, match="node 2 leads epoch 3, the leader number 2"):
        oracle.changed(node(2), view(), view("leader", 3))


def test_looks_are_rare() -> None:
    oracle = of()
    oracle.facts.clock.now_us = LOOK_US - 1
    oracle.decided(acknowledged(5))
    oracle.after_event(node(1), view())
    assert oracle._acknowledged == 5

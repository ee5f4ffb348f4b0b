"""Rows add up, and failures are kept.

Everything is counted, and of many failures only some are kept.
"""

from __future__ import annotations

from dataclasses import fields

import pytest

from pykraft.sim.run.totals import FAILURES_KEPT_MAX, OTHERS, RULES_MAX, CampaignSummary, Totals, rule_and_story
from tests.sim.run.campaign_rows import IDENTITY, failed, passed


def test_rows_add_up() -> None:
    totals = Totals()
    totals.add({"seed": 1, "failed": False, "virtual_ms": 5, "committed": 3, "acknowledged": 2, "faults": {"kill": 2}})
    states = {"kill": {"leader": 1, "follower": 2}}
    totals.add({"seed": 2, "failed": True, "at_us": 3_900, "faults": {"kill": 1, "split": 4}, "states": states})
    totals.add({"seed": 3, "failed": True, "at_us": 0, "faults": {}, "states": states})
    assert totals.seeds == 3
    assert totals.sums == {"virtual_ms": 8, "committed": 3, "acknowledged": 2}
    assert totals.faults == {"kill": 3, "split": 4}
    assert totals.worlds_with == {"kill": 2, "split": 1}
    assert totals.states == {"kill": {"leader": 2, "follower": 4}}


def test_it_counts_as_totals_do() -> None:
    rows = [passed(1), failed(2), passed(3, states={})]
    summary, totals = CampaignSummary(identity=IDENTITY), Totals()
    for row in rows:
        summary.add(row)
        totals.add(row)
    for field in fields(Totals):
        assert getattr(summary.totals, field.name) == getattr(totals, field.name), field.name
    assert (summary.passed, summary.failed) == (2, 1)


def test_of_many_failures_the_first_are_kept_and_all_are_counted() -> None:
    summary = CampaignSummary(identity=IDENTITY)
    for seed in range(FAILURES_KEPT_MAX + 5, 0, -1):
        summary.add(failed(seed))
    assert summary.failed == summary.rules["OneVote"] == FAILURES_KEPT_MAX + 5
    assert [row["seed"] for row in summary.failures] == list(range(6, FAILURES_KEPT_MAX + 6))


def test_many_rules_are_bounded() -> None:
    summary = CampaignSummary(identity=IDENTITY)
    for seed in range(RULES_MAX + 5):
        summary.add(failed(seed, reason=f"ViolationError: Rule{seed}: it broke"))
    assert len(summary.rules) == RULES_MAX + 1
    assert summary.rules[OTHERS] == 5


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("ViolationError: OneVote: node 1: both", ("OneVote", "node 1: both")),
        ("KeyError: 'a'\n  b", ("KeyError", "'a' b")),
        ("AssertionError: ", ("AssertionError:", "")),
    ],
)
def test_a_reason_is_a_rule_and_a_line(reason: str, expected: tuple[str, str]) -> None:
    assert rule_and_story(failed(1, reason=reason)) == expected

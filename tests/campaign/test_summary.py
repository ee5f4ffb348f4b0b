"""Everything is counted, and of many failures only some are kept."""

from __future__ import annotations

from dataclasses import fields

import pytest

from pykraft.campaign.summary import FAILURES_KEPT_MAX, OTHERS, RULES_MAX, CampaignSummary, rule_and_story
from pykraft.sim.run.totals import Totals
from tests.campaign.campaign_rows import IDENTITY, failed, passed


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

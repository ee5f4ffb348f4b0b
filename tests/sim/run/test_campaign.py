"""Everything is counted, rows add up, and of many failures only some are kept."""

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from pykraft.sim.run import campaign
from pykraft.sim.run.simulation import Failure
from pykraft.sim.scenario.scenario import DEFAULT
from tests.cli.sim_worlds import passed
from tests.sim.run import campaign_rows as rows

IDENTITY = campaign.Identity(scenario="s", version="1", source="c")


def failed(seed: int) -> Failure:
    return Failure(
        seed=seed, finding="it", reason="broke", story="told", trace=("line",), harm=((0, "kill"),), faults={"kill": 2}
    )


def test_rows_say_what_they_are_results_of() -> None:
    first, second = (json.loads(json.dumps(campaign.row_of(each, IDENTITY))) for each in (passed(1), failed(2)))
    assert first | {"seed": 1, "failed": False, "scenario": "s", "version": "1", "source": "c"} == first
    assert (second["failed"], second["reason"], second["faults"]) == (True, "broke", {"kill": 2})
    assert "story" not in second


def test_an_identity_changes_with_the_scenario_only_where_it_must() -> None:
    one, again = campaign.Identity.of(DEFAULT), campaign.Identity.of(DEFAULT)
    other = campaign.Identity.of(replace(DEFAULT, course=replace(DEFAULT.course, faults_us=1)))
    assert one == again
    assert (one.source, one.version) == (other.source, other.version)
    assert one.scenario != other.scenario


def test_the_digest_of_the_source_sees_every_byte_that_decides_a_world(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "cli").mkdir()
    (tmp_path / "core" / "a.py").write_text("a")
    before = campaign.source_digest(tmp_path)
    (tmp_path / "cli" / "a.py").write_text("no part of it")
    assert campaign.source_digest(tmp_path) == before
    (tmp_path / "core" / "a.py").write_text("b")
    changed = campaign.source_digest(tmp_path)
    (tmp_path / "types.py").write_text("")
    assert len({before, changed, campaign.source_digest(tmp_path)}) == 3


def test_a_row_of_an_outcome_is_json() -> None:
    assert json.loads(json.dumps(campaign.row_of(passed(1), IDENTITY)))["committed"] == 10


def test_rows_add_up() -> None:
    totals = campaign.Totals()
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
    mixed = [rows.passed(1), rows.failed(2), rows.passed(3, states={})]
    summary, totals = campaign.CampaignSummary(identity=rows.IDENTITY), campaign.Totals()
    for row in mixed:
        summary.add(row)
        totals.add(row)
    for field in fields(campaign.Totals):
        assert getattr(summary.totals, field.name) == getattr(totals, field.name), field.name
    assert (summary.passed, summary.failed) == (2, 1)


def test_of_many_failures_the_first_are_kept_and_all_are_counted() -> None:
    summary = campaign.CampaignSummary(identity=rows.IDENTITY)
    for seed in range(campaign.FAILURES_KEPT_MAX + 5, 0, -1):
        summary.add(rows.failed(seed))
    assert summary.failed == summary.rules["OneVote"] == campaign.FAILURES_KEPT_MAX + 5
    assert [row["seed"] for row in summary.failures] == list(range(6, campaign.FAILURES_KEPT_MAX + 6))


def test_many_rules_are_bounded() -> None:
    summary = campaign.CampaignSummary(identity=rows.IDENTITY)
    for seed in range(campaign.RULES_MAX + 5):
        summary.add(rows.failed(seed, reason=f"ViolationError: Rule{seed}: it broke"))
    assert len(summary.rules) == campaign.RULES_MAX + 1
    assert summary.rules[campaign.OTHERS] == 5


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("ViolationError: OneVote: node 1: both", ("OneVote", "node 1: both")),
        ("KeyError: 'a'\n  b", ("KeyError", "'a' b")),
        ("AssertionError: ", ("AssertionError:", "")),
    ],
)
def test_a_reason_is_a_rule_and_a_line(reason: str, expected: tuple[str, str]) -> None:
    assert campaign.rule_and_story(rows.failed(1, reason=reason)) == expected

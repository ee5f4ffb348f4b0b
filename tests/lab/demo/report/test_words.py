"""The texts of a report: the verdict, a check for each claim, and the command that repeats the run."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

import pytest

from lab.demo.options import DemoOptions
from lab.demo.report.words import checks, command, numbers, setting, verdict
from lab.demo.story import Story
from tests.lab.demo.stories import BEGIN_MS, story

pytestmark = pytest.mark.spark
STORY = story()


def changed(**change: Any) -> Story:
    return replace(STORY, result=replace(STORY.result, audit=replace(STORY.result.audit, **change)))


def test_a_clean_run_has_a_clean_verdict() -> None:
    stressed, rest = verdict(STORY)
    assert stressed == "Nothing lost, nothing duplicated:"
    assert rest.startswith("all 142,400 acknowledged records")
    assert rest.endswith("although the leader was killed.")
    assert all(check.is_met for check in checks(STORY))
    assert verdict(changed(missing=1)) == ("The run failed:", "1 problem found.")


@pytest.mark.parametrize(
    ("change", "claim"),
    [
        ({"acknowledged": 0}, "Nothing is lost"),
        ({"missing": 1}, "Nothing is lost"),
        ({"duplicates": 1}, "Nothing is duplicated"),
        ({"out_of_order": 1}, "Everything is in order"),
        ({"strays": 1}, "Nothing is made up"),
        ({"tables_agree": False}, "The tables are complete"),
        ({"spark_rows": 1}, "The tables are complete"),
        ({"leader_epochs": 1}, "Another node took over"),
    ],
)
def test_each_fault_fails_its_check_alone(change: dict[str, Any], claim: str) -> None:
    assert [check.claim for check in checks(changed(**change)) if not check.is_met] == [claim]
    assert verdict(changed(**change))[0] == "The run failed:"


def test_the_setting_says_what_was_run_and_when_the_leader_was_killed() -> None:
    assert setting(STORY) == (
        "3 nodes, each a process; 5,000 records of 256 bytes per second for 30 seconds. After 15.2 seconds, the "
        "leader, node 2, was killed with kill -9; 1.5 seconds later it was restarted. Spark read the log while it grew."
    )
    assert "kill" not in setting(story(is_leader_killed=False))


def test_a_kill_that_waited_for_spark_was_not_half_way() -> None:
    kill = replace(STORY.kills[0], killed_wall_ms=BEGIN_MS + 40_400, restarted_wall_ms=None)
    late = replace(STORY, kills=(kill,), end_wall_ms=BEGIN_MS + 55_400)
    assert (
        "After 40.4 seconds, once Spark had the first rows in the tables, the leader, node 2, was killed with kill -9."
    ) in setting(late)


def test_a_spark_that_starts_after_the_load_is_told() -> None:
    kill = replace(STORY.kills[0], killed_wall_ms=BEGIN_MS + 40_400, restarted_wall_ms=None)
    batches = (replace(STORY.batches[-1], ended_wall_ms=BEGIN_MS + 90_000),)
    result = replace(STORY.result, batch_latency_ms=None)
    late = replace(STORY, kills=(kill,), end_wall_ms=BEGIN_MS + 55_400, batches=batches, result=result)
    assert ", while Spark still started, the leader, node 2, was killed" in setting(late)
    assert setting(late).endswith("Spark began to read when the load was over.")
    assert not [number for number in numbers(late) if "table" in number.meaning]


def test_numbers_have_units_and_a_fail_over_only_when_there_was_one() -> None:
    assert ("1,515", "ms") in [(number.value, number.unit) for number in numbers(STORY)]
    assert len(list(numbers(story(is_leader_killed=False)))) == len(list(numbers(STORY))) - 1


def test_the_command_runs_the_same_again() -> None:
    options = DemoOptions(seconds=2.5, nodes=5, throughput=9, record_size_bytes=99, kill_leader=True)
    assert shlex.split(command(options)) == [
        *("bin/demo", "--nodes", "5", "--seconds", "2.5", "--throughput", "9", "--record-size", "99"),
        *("--kill-leader", "--report", "report"),
    ]

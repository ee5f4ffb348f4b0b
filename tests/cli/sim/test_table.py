"""Totals as lines: the verdict is last, names are listed only when asked for, numbers are aligned right."""

from __future__ import annotations

from collections import Counter

from pykraft.cli.sim.table import SEEDS_TOLD_MAX, WIDTH, summary_lines
from pykraft.sim.run.campaign import CampaignSummary, Identity, Row, Totals


def of(totals: Totals, *failures: Row) -> CampaignSummary:
    identity = Identity(scenario="s", version="1", source="c")
    return CampaignSummary(identity=identity, totals=totals, failed=len(failures), kept=[*failures])


def test_without_faults_there_are_two_lines() -> None:
    assert list(summary_lines(of(Totals()))) == [
        "0 records committed, 0 acknowledged; 0 faults of 0 kinds (--coverage lists them)",
        "PASSED: 0 seeds; 0 s of virtual time",
    ]


def test_names_are_counted_and_listed_only_when_asked_for() -> None:
    totals = Totals(seeds=1, faults=Counter(kill=1), worlds_with=Counter(kill=1))
    short = "0 records committed, 0 acknowledged; 1 fault of 1 kind, watched by 2 oracles"
    assert next(summary_lines(of(totals), oracles=["One", "Two"])) == f"{short} (--coverage lists them)"
    lines = list(summary_lines(of(totals), oracles=["One", "Two"], with_coverage=True))
    assert lines[:3] == ["2 oracles watched each world:", "  One, Two", ""]
    assert lines[-2:] == [short, "PASSED: 1 seed; 0 s of virtual time"]


def test_each_kind_says_how_often_in_how_many_worlds_and_to_whom() -> None:
    totals = Totals(
        faults=Counter(kill=1_200, split=7),
        worlds_with=Counter(kill=3, split=7),
        states={"kill": Counter(follower=200, leader=1_000)},
    )
    assert list(summary_lines(of(totals), with_coverage=True))[:4] == [
        "fault  times  worlds  happened to",
        "kill   1,200       3  leader 1,000, follower 200",
        "split      7       7",
        "",
    ]


def test_virtual_time_is_set_against_the_clock_on_the_wall() -> None:
    totals = Totals(seeds=1, sums=Counter(virtual_ms=600_000))
    assert list(summary_lines(of(totals), took_s=2.0))[-1] == (
        "PASSED: 1 seed; 600 s of virtual time in 2 s (300.0 times as fast)"
    )


def test_a_failure_is_the_verdict_and_names_the_first_seeds() -> None:
    one = of(Totals(seeds=3), {"seed": 7})
    assert list(summary_lines(one))[-1] == "FAILED: 1 of 3 seeds (7); 0 s of virtual time"
    many = of(Totals(seeds=30), *({"seed": seed} for seed in range(SEEDS_TOLD_MAX + 1)))
    assert "FAILED: 11 of 30 seeds (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, …); " in list(summary_lines(many))[-1]


def test_who_watched_is_named_in_lines_that_are_not_too_long() -> None:
    names = [f"Oracle{number}IsRight" for number in range(20)]
    lines = list(summary_lines(of(Totals()), oracles=names, with_coverage=True))
    assert lines[0] == "20 oracles watched each world:"
    named = lines[1 : lines.index("")]
    assert "".join(named).replace(" ", "").split(",") == names
    assert all(line.startswith("  ") and len(line) <= WIDTH for line in named)

"""Totals as lines: numbers are aligned right, and zeros are left out."""

from __future__ import annotations

from collections import Counter

from pykraft.cli.sim.table import WIDTH, lines_of, table
from pykraft.sim.run.totals import Totals


def test_columns_are_as_wide_as_they_must_be() -> None:
    lines = list(table(("what", "n", "to"), [("a long name", "1", ""), ("b", "12,345", "leader 3")]))
    assert lines == ["what              n  to", "a long name       1", "b            12,345  leader 3"]


def test_a_run_without_faults_has_no_table() -> None:
    assert list(lines_of(Totals())) == ["0 seeds, 0 failed; 0 s of virtual time", "0 records committed, 0 acknowledged"]


def test_each_kind_says_how_often_in_how_many_worlds_and_to_whom() -> None:
    totals = Totals(
        faults=Counter(kill=1_200, split=7),
        worlds_with=Counter(kill=3, split=7),
        states={"kill": Counter(follower=200, leader=1_000)},
    )
    assert list(lines_of(totals))[3:] == [
        "fault  times  worlds  happened to",
        "kill   1,200       3  leader 1,000, follower 200",
        "split      7       7",
    ]


def test_virtual_time_is_set_against_the_clock_on_the_wall() -> None:
    totals = Totals(seeds=1, sums=Counter(virtual_ms=600_000))
    assert next(lines_of(totals, took_s=2.0)) == "1 seed, 0 failed; 600 s of virtual time in 2 s (300.0 times as fast)"


def test_who_watched_is_named_in_lines_that_are_not_too_long() -> None:
    names = [f"Oracle{number}IsRight" for number in range(20)]
    lines = list(lines_of(Totals(), oracles=names))
    assert lines[2:4] == ["", "20 oracles watched each of them:"]
    assert "".join(lines[4:]).replace(" ", "").split(",") == names
    assert all(line.startswith("  ") and len(line) <= WIDTH for line in lines[4:])

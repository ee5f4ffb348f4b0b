"""Each case has a name of its own, and lists of cases are chosen by name or group."""

from __future__ import annotations

import re

import pytest

from lab.benchmarks.suite.cases import SHORT, all_cases, chosen_cases
from pykraft.errors import UsageError


def test_names_are_unique_and_the_short_list_exists() -> None:
    names = [case.name for case in all_cases()]
    assert len(names) == len(set(names))
    assert set(SHORT) <= set(names)


def test_cases_are_chosen_by_name_group_or_list() -> None:
    assert [case.name for case in chosen_cases(["start", "voters-3", "failover"])] == [
        "voters-3",
        "failover-kill",
        "failover-term",
        "failover-stop",
        "start",
    ]
    assert {case.name for case in chosen_cases(["short"])} == set(SHORT)
    assert len(chosen_cases(["all"])) == len(all_cases())
    with pytest.raises(
        UsageError, match=re.escape("--cases voter: there is no such case or group; did you mean voters?")
    ):
        chosen_cases(["voter"])

"""``pykraft sim mutants`` lists, replays and searches; outside of a clone it says what is missing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import pykraft
from pykraft.cli.sim.mutants import mutants
from pykraft.errors import UsageError
from tests.sim.mutants import MUTANTS, search
from tests.sim.mutants.search import CAUGHT, Catch

CATCH = Catch(mutant="votes_are_given_twice", scenario="default", seed=4, noticed_by="OneVote", seen="two votes")


def called(*words: str) -> Result:
    return CliRunner().invoke(mutants, words)


def test_the_list_tells_every_story() -> None:
    rows = [json.loads(line) for line in called("--list", "--json").output.splitlines()]
    assert [row["mutant"] for row in rows] == list(MUTANTS)
    assert all(row["story"] and row["source"] for row in rows)
    assert called("--list", "votes_are_given_twice").output.startswith("votes_are_given_twice\n    A voter")


@pytest.mark.parametrize(("verdict", "exit_code"), [(CAUGHT, 0), ("not noticed", 1)])
def test_a_replay_fails_when_a_bug_is_not_caught(monkeypatch: pytest.MonkeyPatch, verdict: str, exit_code: int) -> None:
    monkeypatch.setattr(search, "replay", lambda name, oracle: {"mutant": name, "alone": oracle, "verdict": verdict})
    result = called("votes_are_given_twice", "--oracle", "OneVote")
    assert result.output == f"votes_are_given_twice: {verdict}\n"
    assert result.exit_code == exit_code


def test_an_oracle_without_names_is_shown_its_own_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"scenario": "default", "seed": 4, "noticed_by": "OneVote", "seen": "two votes", "verdict": CAUGHT}
    monkeypatch.setattr(search, "replay", lambda name, oracle: {"mutant": name, **row})
    assert called("--oracle", "OneVote").output.splitlines() == [
        "votes_are_given_twice: caught",
        "    scenario default, seed 4, noticed by OneVote",
        "    two votes",
    ]


def test_an_oracle_without_names_searches_for_its_own_bug_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """It planted every bug, and did not end."""
    monkeypatch.setattr(search, "search_all", lambda jobs, seeds, workers: [(*job, CATCH) for job in jobs])
    rows = [json.loads(line) for line in called("--oracle", "OneVote", "--seeds", "0:9", "--json").output.splitlines()]
    assert [(row["mutant"], row["alone"]) for row in rows] == [("votes_are_given_twice", "OneVote")]


@pytest.mark.parametrize(("found", "exit_code"), [(CATCH, 0), (None, 1)])
def test_a_search_tells_what_it_finds(monkeypatch: pytest.MonkeyPatch, found: Catch | None, exit_code: int) -> None:
    asked: list[Any] = []

    def search_all(jobs: Sequence[Any], seeds: range, *, workers: int) -> Any:
        asked.append((list(jobs), seeds, workers))
        return [(name, oracle, found) for name, oracle in jobs]

    monkeypatch.setattr(search, "search_all", search_all)
    result = called("votes_are_given_twice", "--seeds", "3:9", "--workers", "2", "--json")
    row = json.loads(result.output)
    assert asked == [([("votes_are_given_twice", None)], range(3, 9), 2)]
    assert row["seed"] == (4 if found else None)
    assert result.exit_code == exit_code


def test_rewriting_searches_all_bugs_and_all_oracles_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[Any] = []
    monkeypatch.setattr(
        search, "search_all", lambda jobs, seeds, workers: [(name, oracle, CATCH) for name, oracle in jobs]
    )
    monkeypatch.setattr(search, "record_found", kept.append)
    assert called("--seeds", "0:1", "--rewrite").exit_code == 0
    assert len(kept[0]) == len(MUTANTS) + len(search.ORACLES)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["nothing"], "there is no planted bug 'nothing'"),
        (["--oracle", "Nobody"], "there is no oracle 'Nobody': choose one of "),
        (["--workers", "0"], "give at least 1"),
        (["--rewrite"], "give it --seeds"),
        (["--rewrite", "--seeds", "0:2", "--oracle", "OneVote"], "and no --oracle"),
        (["--seeds", "x"], "--seeds x"),
    ],
)
def test_wrong_words_are_refused(words: list[str], problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        CliRunner().invoke(mutants, words, catch_exceptions=False)


def test_outside_of_a_clone_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pykraft, "__file__", str(tmp_path / "lib" / "site" / "pykraft" / "__init__.py"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="run this command in a clone"):
        CliRunner().invoke(mutants, ["--list"], catch_exceptions=False)

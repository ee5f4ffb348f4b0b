"""``pykraft sim`` in a clone: runs that keep rows, campaigns that add up, and planted bugs."""

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lab.campaign.rows import RowFile
from lab.cli.sim import kept_rows, mutants, sim
from pykraft.cli.sim.run import sim as packaged
from pykraft.errors import UsageError
from pykraft.sim.run.campaign import CampaignSummary, Identity, row_of
from pykraft.sim.run.simulation import Failure
from pykraft.sim.run.world import Outcome
from pykraft.sim.scenario.file import load
from tests.cli.sim_worlds import at_once, failed, passed
from tests.sim.mutants import MUTANTS, search
from tests.sim.mutants.search import CAUGHT, Catch
from tests.sim.run.campaign_rows import IDENTITY as ROWS_IDENTITY

IDENTITY = Identity(scenario="s", version="1", source="c")
CATCH = Catch(mutant="votes_are_given_twice", scenario="default", seed=4, noticed_by="OneVote", seen="two votes")


def test_a_clone_has_the_commands_of_the_package_and_more() -> None:
    assert sim.commands.keys() - packaged.commands.keys() == {"mutants", "report"}
    assert sim.help == packaged.help
    assert all(command.get_short_help_str() for command in sim.commands.values())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    return at_once(monkeypatch)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(sim, ["run", *arguments])


def test_what_is_in_a_file_of_rows_is_not_run_again(tmp_path: Path, asked: list[dict[str, Any]]) -> None:
    path = tmp_path / "rows.jsonl"
    first = run("--seeds", "12:15", "--out", str(path))
    again = run("--seeds", "11:16", "--out", str(path))
    assert [call["seeds"] for call in asked] == [[12, 13, 14], [11, 15]]
    assert (first.exit_code, again.exit_code) == (1, 1)
    assert "FAILED: 1 of 5 seeds (13)" in again.stdout
    assert sorted(json.loads(line)["seed"] for line in path.read_text().splitlines()) == [11, 12, 13, 14, 15]


@pytest.mark.usefixtures("asked")
def test_a_page_of_the_run_has_all_seeds_and_the_pace_of_those_that_ran(tmp_path: Path) -> None:
    path, page = str(tmp_path / "rows.jsonl"), tmp_path / "page.html"
    run("--seeds", "10:12", "--out", path)
    result = run("--seeds", "10:15", "--out", path, "--report", str(page))
    assert result.exit_code == 1
    text = page.read_text()
    assert "<h1>1 of 5 seeds failed</h1>" in text
    assert "<p>3 seeds ran in 0 s, " in text
    assert "<code>bin/pykraft sim replay --seed 13</code>" in text


@pytest.mark.usefixtures("asked")
def test_rows_of_another_scenario_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    run("--seeds", "2", "--out", str(path))
    result = run("--seeds", "4", "--out", str(path), "--faults", "disk")
    assert isinstance(result.exception, UsageError)
    assert "results of different runs are not mixed" in str(result.exception)


def test_spark_has_no_trace() -> None:
    result = run("--seeds", "2", "--spark", "local[1]", "--trace")
    assert isinstance(result.exception, UsageError)


@pytest.mark.parametrize("master", ["cluster", "", "spark:/host"])
def test_a_master_that_is_none_is_told_as_the_option_that_named_it(master: str) -> None:
    result = run("--seeds", "2", "--spark", master)
    assert isinstance(result.exception, UsageError)
    assert str(result.exception).startswith(f"--spark {master}: it must be local[CORES], spark://host:port")


def test_a_file_that_cannot_be_opened_is_told_with_its_option(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match=r"--out .*: Is a directory"),
        kept_rows(tmp_path, range(1), CampaignSummary(identity=ROWS_IDENTITY)),
    ):
        pass


def write(path: Path, *results: Outcome | Failure, identity: Identity = IDENTITY) -> Path:
    with closing(RowFile(path, identity, on_row=lambda _: None)) as rows:
        for result in results:
            rows.add(row_of(result, identity))
    return path


def report(*paths: Path | str) -> Result:
    return CliRunner().invoke(sim, ["report", *map(str, paths)])


def test_files_add_up_and_a_seed_counts_once(tmp_path: Path) -> None:
    one = write(tmp_path / "1", passed(1), passed(2))
    two = write(tmp_path / "2", passed(2), passed(3))
    result = report(one, two)
    assert result.exit_code == 0
    counts, verdict = result.stdout.splitlines()
    assert counts.startswith("30 records committed")
    assert verdict == "PASSED: 3 seeds; 4 s of virtual time"
    assert "happened to" in report(one, two, "--coverage").stdout
    document = json.loads(report(one, two, "--json").stdout)
    assert (document["seeds"], document["sums"]["committed"], document["failures"]) == (3, 30, [])


def test_failures_are_listed_with_what_replays_them(tmp_path: Path) -> None:
    identity = Identity.of(load(["disk", "network"]))
    path = write(tmp_path / "1", passed(1), *map(failed, range(100, 125)), identity=identity)
    result = report(path, "--faults", "disk,network")
    assert result.exit_code == 1
    first, command, *_, more, _, verdict = result.stdout.splitlines()
    assert first == "seed 100 failed: ViolationError: OneVote: it broke"
    assert command == "replay it: bin/pykraft sim replay --seed 100 --faults disk,network"
    assert more == "and 5 more"
    assert verdict.startswith("FAILED: 25 of 26 seeds (100, 101, ")
    row = json.loads(report(path, "--faults", "disk,network", "--json").stdout)
    assert row["failures"][0]["replay"] == command.removeprefix("replay it: ")
    assert isinstance(report(path, "--faults", "quiet").exception, UsageError)


def test_versions_are_told_side_by_side_and_never_added_up(tmp_path: Path) -> None:
    other = replace(IDENTITY, version="2", source="d")
    one, two = write(tmp_path / "1", passed(1), failed(2)), write(tmp_path / "2", passed(2), identity=other)
    result = report(one, two)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert "FAILED: 1 of 2 seeds (2); 4 s of virtual time" in lines
    assert "PASSED: 1 seed; 2 s of virtual time" in lines
    assert [line.split()[:4] for line in lines[-4:-1]] == [
        ["source", "seeds", "passed", "failed"],
        ["c", "2", "1", "1"],
        ["d", "1", "1", "0"],
    ]
    assert lines[-1] == "FAILED: Seeds of 1 of 2 versions of the code failed"
    rows = list(map(json.loads, report(one, two, "--json").stdout.splitlines()))
    assert [(row["version"], row["seeds"], row["failed"]) for row in rows] == [("1", 2, 1), ("2", 1, 0)]


def test_a_page_is_written(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert report(write(tmp_path / "1", passed(1), failed(2)), "--html", page).exit_code == 1
    assert "<h1>1 of 2 seeds failed</h1>" in page.read_text()


def test_it_takes_a_file(tmp_path: Path) -> None:
    assert report().exit_code == 2
    assert report(tmp_path / "none").exit_code == 2


def planted(*words: str) -> Result:
    return CliRunner().invoke(mutants, words)


def test_the_list_tells_every_story() -> None:
    rows = [json.loads(line) for line in planted("--list", "--json").output.splitlines()]
    assert [row["mutant"] for row in rows] == list(MUTANTS)
    assert all(row["story"] and row["source"] for row in rows)
    assert planted("--list", "votes_are_given_twice").output.startswith("votes_are_given_twice\n    A voter")


@pytest.mark.parametrize(("verdict", "exit_code"), [(CAUGHT, 0), ("not noticed", 1)])
def test_a_replay_fails_when_a_bug_is_not_caught(monkeypatch: pytest.MonkeyPatch, verdict: str, exit_code: int) -> None:
    monkeypatch.setattr(search, "replay", lambda name, oracle: {"mutant": name, "alone": oracle, "verdict": verdict})
    result = planted("votes_are_given_twice", "--oracle", "OneVote")
    assert result.output == f"votes_are_given_twice: {verdict}\n"
    assert result.exit_code == exit_code


def test_an_oracle_without_names_is_shown_its_own_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"scenario": "default", "seed": 4, "noticed_by": "OneVote", "seen": "two votes", "verdict": CAUGHT}
    monkeypatch.setattr(search, "replay", lambda name, oracle: {"mutant": name, **row})
    assert planted("--oracle", "OneVote").output.splitlines() == [
        "votes_are_given_twice: caught",
        "    scenario default, seed 4, noticed by OneVote",
        "    two votes",
    ]


@pytest.mark.parametrize(("found", "exit_code"), [(CATCH, 0), (None, 1)])
def test_a_search_tells_what_it_finds(monkeypatch: pytest.MonkeyPatch, found: Catch | None, exit_code: int) -> None:
    asked: list[Any] = []

    def search_all(jobs: Sequence[Any], seeds: range, *, workers: int) -> Any:
        asked.append((list(jobs), seeds, workers))
        return [(name, oracle, found) for name, oracle in jobs]

    monkeypatch.setattr(search, "search_all", search_all)
    result = planted("votes_are_given_twice", "--seeds", "3:9", "--workers", "2", "--json")
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
    assert planted("--seeds", "0:1", "--rewrite").exit_code == 0
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

"""``pykraft sim report``: files of several machines add up; each version of the code for itself."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from click.testing import CliRunner, Result

from pykraft.campaign.row_file import RowFile
from pykraft.cli.sim.command import sim
from pykraft.errors import UsageError
from pykraft.sim.run.campaign import Identity, row_of
from pykraft.sim.run.outcome import Outcome
from pykraft.sim.run.simulation import Failure
from pykraft.sim.scenario.file import load
from tests.cli.sim_worlds import failed, passed

IDENTITY = Identity(scenario="s", version="1", source="c")


def write(path: Path, *results: Outcome | Failure, identity: Identity = IDENTITY) -> Path:
    with closing(RowFile(path, identity, tell=lambda _: None)) as rows:
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


def test_options_that_are_not_known_are_not_made_up(tmp_path: Path) -> None:
    result = report(write(tmp_path / "1", failed(1)))
    assert "replay it" not in result.stdout
    assert "name these options to `pykraft sim report`, too, and with the code of source c." in result.stdout


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


def test_two_versions_that_pass_pass(tmp_path: Path) -> None:
    one = write(tmp_path / "1", passed(1))
    two = write(tmp_path / "2", passed(1), identity=replace(IDENTITY, scenario="t"))
    result = report(one, two)
    assert (result.exit_code, result.stdout.splitlines()[-1]) == (0, "PASSED: 2 versions of the code passed")


def test_a_file_without_a_row_yet_says_so(tmp_path: Path) -> None:
    result = report(write(tmp_path / "1"))
    assert (result.exit_code, result.stdout) == (0, "No seed has a result\n")


def test_a_page_is_written(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert report(write(tmp_path / "1", passed(1), failed(2)), "--html", page).exit_code == 1
    assert "<h1>1 of 2 seeds failed</h1>" in page.read_text()


def test_it_takes_a_file(tmp_path: Path) -> None:
    assert report().exit_code == 2
    assert report(tmp_path / "none").exit_code == 2

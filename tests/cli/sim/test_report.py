"""``pykraft sim report``: files of several machines add up; files that do not belong together are rejected."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from click.testing import CliRunner, Result

from pykraft.cli.errors import exit_code
from pykraft.cli.sim.command import sim
from pykraft.errors import UsageError
from pykraft.sim.run.campaign import Identity, Results, row_of
from pykraft.sim.run.outcome import Outcome
from pykraft.sim.run.simulation import Failure
from tests.cli.sim_worlds import failed, passed

IDENTITY = Identity(scenario="s", version="1", source="c")


def write(path: Path, *results: Outcome | Failure, identity: Identity = IDENTITY) -> Path:
    rows = Results(path, identity)
    for result in results:
        rows.add(row_of(result, identity))
    rows.close()
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


def test_failures_are_listed(tmp_path: Path) -> None:
    result = report(write(tmp_path / "1", passed(1), *map(failed, range(100, 125))))
    assert result.exit_code == 1
    assert "seed 100 failed: ViolationError: OneVote: it broke\n" in result.stdout
    *_, more, _, verdict = result.stdout.splitlines()
    assert more == "and 5 more"
    assert verdict.startswith("FAILED: 25 of 26 seeds (100, 101, ")


def test_files_of_two_campaigns_are_refused(tmp_path: Path) -> None:
    one = write(tmp_path / "1", passed(1))
    for other in (replace(IDENTITY, scenario="t"), replace(IDENTITY, version="2"), replace(IDENTITY, source="d")):
        path = write(tmp_path / f"{other.scenario}{other.version}{other.source}", passed(2), identity=other)
        result = report(one, path)
        assert isinstance(result.exception, UsageError)
        assert exit_code(result.exception) == 2


def test_it_takes_a_file(tmp_path: Path) -> None:
    assert report().exit_code == 2
    assert report(tmp_path / "none").exit_code == 2

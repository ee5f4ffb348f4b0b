"""Each planted bug still applies and names an existing test; the cheapest tests are run and catch theirs.

All of them, by hand: ``python -m tests.planted run``.
"""

import json
import shutil
from pathlib import Path

import pytest

from tests.planted.__main__ import main
from tests.planted.bugs import BORDERS, Bug, judge
from tests.sim.strength import PACKAGE, plant, read
from tests.tidy.repository import ROOT

BUGS = {bug.name: bug for bug in read(BORDERS, Bug)}
CHEAPEST = (
    "parked_fetch_outlives_its_connection",
    "fetch_may_wait_for_weeks",
    "record_headers_are_counted_by_the_record",
    "control_batches_are_decompressed",
    "zstd_frames_are_not_counted",
    "observer_that_makes_room_is_looked_for",
    "retired_file_is_removed_twice",
    "infinite_numbers_are_read",
)
"""Two seconds of a core each, nearly all of it the start of pytest."""
QUORUM_TEST = "test_a_majority_is_the_smallest_number_with_which_any_two_sets_meet"
TABLE = """
[turned]
path = "core/quorum.py"
before = "return voter_count // 2 + 1"
after = "{after}"
story = "Half of the voters are a majority."
test = "tests/core/test_quorum.py::{test}"
"""


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_a_bug_applies_and_its_test_is_there(bug: Bug, tmp_path: Path) -> None:
    target = tmp_path / bug.path
    target.parent.mkdir(parents=True, exist_ok=True)
    source = (ROOT if bug.path.startswith("lab/") else PACKAGE) / bug.path
    shutil.copy(source, target)
    plant(bug, tmp_path)
    assert target.read_text() != source.read_text()
    path, _, test = bug.test.partition("::")
    assert f"def {test.partition('[')[0]}(" in (ROOT / path).read_text()


@pytest.mark.parametrize("name", CHEAPEST)
def test_a_bug_is_caught(name: str) -> None:
    verdict = judge(BUGS[name])
    assert verdict.is_caught, verdict


def edits(folder: Path, *, after: str = "return voter_count // 2", test: str = "") -> str:
    """The path of a file with one bug."""
    path = folder / "edits.toml"
    path.write_text(TABLE.format(after=after, test=test))
    return str(path)


def test_a_change_of_nothing_lives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same = edits(tmp_path, after="return 1 + voter_count // 2", test=QUORUM_TEST)
    assert main(["run", "--edits", same]) == 1
    assert "turned: LIVES" in capsys.readouterr().out


def test_a_test_that_is_not_run_catches_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--edits", edits(tmp_path, test="test_that_is_gone"), "--json"]) == 1
    [line] = capsys.readouterr().out.splitlines()
    verdict = json.loads(line)
    assert not verdict["is_caught"]
    assert verdict["reason"] == "the test does not pass without the bug"


def test_what_cannot_be_planted_is_a_wrong_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(edits(tmp_path, test=QUORUM_TEST))
    assert main(["run", "--edits", str(path), "--name", "nobody"]) == 2
    assert "there is no bug nobody" in capsys.readouterr().err
    path.write_text(path.read_text().replace("story", "tale"))
    assert main(["list", "--edits", str(path)]) == 2
    assert "[turned]" in capsys.readouterr().err


def test_bugs_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    listed = capsys.readouterr().out
    assert all(f"{name}: {bug.story}\n    {bug.test}\n" in listed for name, bug in BUGS.items())

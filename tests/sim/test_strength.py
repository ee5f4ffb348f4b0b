"""Bugs as changes of text: they are drawn, planted once, and the worlds that catch them are counted."""

import subprocess
from pathlib import Path

import pytest

from tests.sim.strength import CRASHED, PACKAGE, Edit, changed_since, draw, judge, main, plant, read

HALF = Edit(
    name="half",
    path="core/quorum.py",
    before="return voter_count // 2 + 1",
    after="return max(1, voter_count // 2)",
    story="Half of the voters are a majority.",
)


def test_a_seed_draws_the_same_places_each_time_and_no_place_twice() -> None:
    places = draw(14, 30)
    assert places == draw(14, 30)
    assert len(set(places)) == 30
    assert places != draw(15, 30)
    assert all(place.split("/")[0] in {"core", "log", "snapshot", "host"} for place in places)


def test_no_more_places_are_drawn_than_there_are(tmp_path: Path) -> None:
    (tmp_path / "core").mkdir()
    (tmp_path / "core" / "one.py").write_text("def f(a):\n    a = 1\n    b = 2\n    return a + b\n")
    assert draw(1, 5, tmp_path) == ["core/one.py:1 f"]


@pytest.mark.git
def test_places_may_be_those_that_have_changed(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=x", "-c", "user.email=x")
        subprocess.run(["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True)

    body = "    a = 1\n    b = 2\n    return a + b\n"
    (tmp_path / "core").mkdir()
    code = tmp_path / "core" / "one.py"
    code.write_text(f"def f(a):\n{body}\n\ndef g(a):\n{body}")
    git("init")
    git("add", ".")
    git("commit", "-m", "x")
    code.write_text(code.read_text().replace("def g(a):\n    a = 1", "def g(a):\n    a = 0"))
    assert changed_since("HEAD", tmp_path) == {"core/one.py": {8}}
    assert draw(1, 5, tmp_path, changed_since("HEAD", tmp_path)) == ["core/one.py:7 g"]


def test_a_bug_is_planted_where_its_text_stands_once(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("a = 1\nb = 2\n")
    plant(Edit(name="x", path="one.py", before="b = 2", after="b = 3", story=""), tmp_path)
    assert (tmp_path / "one.py").read_text() == "a = 1\nb = 3\n"


@pytest.mark.parametrize(("before", "times"), [("c", 0), ("=", 2)])
def test_a_bug_whose_text_is_not_there_once_is_refused(tmp_path: Path, before: str, times: int) -> None:
    (tmp_path / "one.py").write_text("a = 1\nb = 2\n")
    with pytest.raises(ValueError, match=f"{times} times, expected once"):
        plant(Edit(name="x", path="one.py", before=before, after="!", story=""), tmp_path)


def test_a_file_of_bugs_is_read_strictly(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "edits.toml"
    path.write_text('[half]\npath = "a.py"\nbefore = "x"\nafter = "y"\nstory = "z"\n')
    assert read(path, Edit) == [Edit(name="half", path="a.py", before="x", after="y", story="z")]
    path.write_text('[half]\npath = "a.py"\n')
    assert main(["run", str(path)]) == 2
    assert "[half]" in capsys.readouterr().err


def test_the_command_prints_the_places(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draw", "--seed", "14", "--count", "2"]) == 0
    assert capsys.readouterr().out.splitlines() == draw(14, 2)


@pytest.mark.sim
def test_a_bug_is_caught_by_the_first_world_that_fails_and_the_clone_stays_as_it_is() -> None:
    before = (PACKAGE / HALF.path).read_text()
    verdict = judge(HALF, 30)
    assert verdict.is_caught, verdict
    assert (PACKAGE / HALF.path).read_text() == before


@pytest.mark.sim
def test_a_change_of_nothing_lives() -> None:
    same = Edit(name="same", path=HALF.path, before=HALF.before, after=f"{HALF.before}  # the same", story="")
    assert not judge(same, 2).is_caught


@pytest.mark.sim
def test_a_bug_that_ends_the_run_outside_of_a_world_is_told_as_that() -> None:
    broken = Edit(
        name="broken", path="core/quorum.py", before="from pykraft.types import Offset", after="import no", story=""
    )
    verdict = judge(broken, 1)
    assert verdict.is_caught
    assert verdict.reason.startswith(CRASHED)

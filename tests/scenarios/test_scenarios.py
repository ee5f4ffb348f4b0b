"""Every scenario file tells what happens, and it does. ``pytest --rewrite`` writes what happens now.

A line ``# conformance: 26 27`` in a file is the marker of that name for its test.
"""

import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.conformance.plugin import scenario_marks
from tests.scenarios import asks, stage, tamper
from tests.scenarios.script import QUIET, heads, is_command, run
from tests.scenarios.stage import OPTIONS, Stage

PATHS = sorted(Path(__file__).parent.glob("*.txt"))
FILES = [pytest.param(path, id=path.stem, marks=scenario_marks(path.read_text(encoding="utf-8"))) for path in PATHS]
COMMANDS = [
    line.removeprefix(QUIET).split()
    for path in PATHS
    for head in heads(path.read_text(encoding="utf-8"))
    for line in head
    if is_command(line)
]


def listed(module: ModuleType) -> list[str]:
    """The words that the docstring of a module explains, one a line."""
    return re.findall(r"^ {4}([a-z-]+)(?: |$)", module.__doc__ or "", re.MULTILINE)


@pytest.mark.conformance("H50")
def test_what_goes_otherwise_than_it_is_told_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "story.txt"
    path.write_text("# Why.\ncluster voters=1\nstate\n----\n1 is follower epoch=1\n")
    assert "1 is leader epoch=1" in run(path)
    path.write_text(run(path))
    assert path.read_text() == run(path)


def test_output_stands_under_the_command_that_caused_it(tmp_path: Path) -> None:
    path = tmp_path / "story.txt"
    path.write_text("# Why.\nquiet cluster voters=1\nquiet flush 1\nquiet heal\n# How.\nstall 1\nappend 1 2\ntick 9\n")
    told = """\
# Why.
quiet cluster voters=1
quiet flush 1
heal
# How.
stall 1
append 1 2
----
1 accepts a proposal at 1
1 appends 1..3 epoch=1

tick 9
----
(nothing)
"""
    assert run(path) == told
    path.write_text(told)
    assert run(path) == told


def test_the_list_of_verbs_is_complete_and_each_is_used() -> None:
    assert listed(stage) == list(Stage().verbs)
    assert set(Stage().verbs) == {verb for verb, *_ in COMMANDS}


def test_the_options_of_a_cluster_are_listed_and_each_is_used() -> None:
    used = {word.partition("=")[0] for verb, *words in COMMANDS if verb == "cluster" for word in words}
    assert used == OPTIONS
    assert [option for option in sorted(OPTIONS - {"voters"}) if f"``{option}" not in (stage.__doc__ or "")] == []


def test_the_requests_from_outside_are_listed_and_each_is_used() -> None:
    assert listed(asks) == list(asks.REQUESTS)
    assert set(asks.REQUESTS) == {words[1] for verb, *words in COMMANDS if verb == "ask"}


def test_what_can_be_tampered_with_is_listed_and_each_is_used() -> None:
    used = {word.partition("=")[0] for verb, *words in COMMANDS if verb == "tamper" for word in words[1:]}
    assert set(listed(tamper)) == used


@pytest.mark.parametrize("path", FILES)
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    told = run(path)
    if request.config.getoption("--rewrite"):
        path.write_text(told, encoding="utf-8")
    assert told == path.read_text(encoding="utf-8")

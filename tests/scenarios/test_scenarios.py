"""Every scenario file tells what happens, and it does. ``pytest --rewrite`` writes what happens now.

A line ``# conformance: 26 27`` in a file is the marker of that name for its test.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.plugin import scenario_marks
from tests.scenarios.script import run

FILES = [
    pytest.param(path, id=path.stem, marks=scenario_marks(path.read_text(encoding="utf-8")))
    for path in sorted(Path(__file__).parent.glob("*.txt"))
]


@pytest.mark.conformance("H50")
def test_what_goes_otherwise_than_it_is_told_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "story.txt"
    path.write_text("# Why.\ncluster voters=1\nstate\n----\n1 is follower epoch=1\n")
    assert "1 is leader epoch=1" in run(path)
    path.write_text(run(path))
    assert path.read_text() == run(path)


@pytest.mark.parametrize("path", FILES)
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    told = run(path)
    if request.config.getoption("--rewrite"):
        path.write_text(told, encoding="utf-8")
    assert told == path.read_text(encoding="utf-8")

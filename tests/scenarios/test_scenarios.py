"""Every scenario file tells what happens, and it does. ``pytest --rewrite`` writes what happens now."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.script import run

FILES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path, request: pytest.FixtureRequest) -> None:
    told = run(path)
    if request.config.getoption("--rewrite"):
        path.write_text(told, encoding="utf-8")
    assert told == path.read_text(encoding="utf-8")

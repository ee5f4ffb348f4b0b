"""`pykraft pipeline upkeep` on the command line: what it tells, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pykraft.spark.tables.names import BRONZE
from tests.cli.pipeline.test_command import run

REFUSED = [
    (["--tables", "absent"], "--tables absent: No such file or directory: give the folder that"),
    (["--tables", "."], "there are no tables; pykraft pipeline run creates them"),
    (["--tables", ".", "--retention-hours", "24"], "--retention-hours 24: a query that began earlier would miss its"),
    (["--tables", ".", "--target-size", "0"], "--target-size 0: give a whole number of at least 1"),
]


@pytest.mark.spark
@pytest.mark.parametrize(("arguments", "told"), REFUSED)
def test_wrong_input_is_one_line_and_status_2(
    arguments: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(monkeypatch, "upkeep", *arguments) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert told in line


@pytest.mark.spark
def test_it_tells_what_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests.spark.tables.files import make_table

    make_table(tmp_path / BRONZE, appends=3)
    assert run(monkeypatch, "upkeep", "--tables", str(tmp_path)) == 0
    out = capsys.readouterr().out
    assert BRONZE in out
    assert "files before" in out
    words = ["upkeep", "--tables", str(tmp_path), "--retention-hours", "0", "--allow-short-retention", "--json"]
    assert run(monkeypatch, *words) == 0
    told = json.loads(capsys.readouterr().out)["tables"][BRONZE]
    assert told == {"files_before": 1, "files": 1, "rewritten_bytes": 0, "deleted_files": 3}

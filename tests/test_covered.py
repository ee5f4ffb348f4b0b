"""Coverage is counted by package, and the report names what is below its floor."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests import covered
from tests.tidy.repository import ROOT


def measured(path: str, *, lines: tuple[int, int] = (10, 10), branches: tuple[int, int] = (4, 4)) -> dict[str, object]:
    return {
        f"src/pykraft/{path}": {
            "summary": {
                "num_statements": lines[0],
                "covered_lines": lines[1],
                "num_branches": branches[0],
                "covered_branches": branches[1],
            },
            "missing_lines": list(range(1, 1 + lines[0] - lines[1])),
            "missing_branches": [[7, -1]] * (branches[0] - branches[1]),
        }
    }


def report(folder: Path, *files: Mapping[str, object]) -> str:
    whole = {name: each for package in covered.FLOORS for name, each in measured(f"{package}/a.py").items()}
    for each in files:
        whole |= each
    path = folder / "coverage.json"
    path.write_text(json.dumps({"files": whole}))
    return str(path)


def test_what_is_at_its_floor_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    just_enough = measured("log/a.py", lines=(100, 95), branches=(20, 19))
    elsewhere = measured("sim/a.py", lines=(9, 0))
    assert covered.main([report(tmp_path, just_enough, elsewhere)]) == 0
    table = capsys.readouterr().out
    assert re.search(r"^core +100.00 +100.00 +100$", table, re.MULTILINE)
    assert re.search(r"^log +95.00 +95.00 +95$", table, re.MULTILINE)
    assert "sim" not in table


def test_lines_and_branches_each_count_and_all_files_of_a_package_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert covered.main([report(tmp_path, measured("core/on/b.py", branches=(4, 3)))]) == 1
    assert "core is below 100 %" in (said := capsys.readouterr().err)
    assert "src/pykraft/core/on/b.py:7 to -1" in said
    assert covered.main([report(tmp_path, measured("host/b.py", lines=(10, 8)))]) == 1
    assert "src/pykraft/host/b.py:2" in capsys.readouterr().err
    assert covered.main([report(tmp_path, measured("host/b.py", lines=(10, 9)))]) == 0


@pytest.mark.parametrize("text", [None, "", "[]", "{}", '{"files": {"src/pykraft/core/a.py": {}}}'])
def test_what_is_no_report_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None) -> None:
    path = tmp_path / "coverage.json"
    if text is not None:
        path.write_text(text)
    assert covered.main([str(path)]) == 2
    assert "give one report" in capsys.readouterr().err
    assert covered.main([]) == 2


def test_a_package_that_was_not_measured_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "coverage.json"
    path.write_text(json.dumps({"files": measured("core/a.py")}))
    assert covered.main([str(path)]) == 2
    assert "nothing was measured of protocol, rpc, log, snapshot, host" in capsys.readouterr().err


def test_bin_test_measures_the_packages_that_have_a_floor() -> None:
    text = (ROOT / "bin" / "test").read_text(encoding="utf-8")
    assert set(re.findall(r"--cov=pykraft\.(\w+)", text)) == set(covered.FLOORS)

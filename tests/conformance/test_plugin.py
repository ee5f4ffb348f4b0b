"""The run writes which test carried which line and how it ended; an unknown line ends the run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.plugin import pytest_collection_modifyitems, scenario_marks
from tests.tidy.repository import ROOT

CASES = """
import pytest

@pytest.mark.conformance(3, "H12", 1)
class TestAll:
    @pytest.mark.conformance(2)
    def test_passes(self): pass

    def test_fails(self): assert False

@pytest.fixture
def broken():
    yield
    raise RuntimeError

@pytest.mark.conformance(4)
def test_fails_at_its_end(broken): pass

@pytest.mark.parametrize("each", [pytest.param(0, marks=pytest.mark.conformance(5)), 1])
def test_one_of_two(each): pass
"""


def run(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_cases.py").write_text(text)
    plugins = [
        "-p",
        "tests.conformance.plugin",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "-o",
        "markers=conformance",
    ]
    report = ["--conformance-report", str(folder / "parts" / "unit.json")]
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", str(folder), "-c", "/dev/null", *plugins, *report]
    return subprocess.run([*command, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


def test_outcomes_are_written(tmp_path: Path) -> None:
    ended = run(tmp_path, CASES)
    assert "1 failed, 4 passed, 1 error" in ended.stdout
    assert json.loads((tmp_path / "parts" / "unit.json").read_text()) == {
        "test_cases.py::TestAll::test_fails": {"lines": [1, 3, "H12"], "outcome": "failed"},
        "test_cases.py::TestAll::test_passes": {"lines": [1, 2, 3, "H12"], "outcome": "passed"},
        "test_cases.py::test_fails_at_its_end": {"lines": [4], "outcome": "failed"},
        "test_cases.py::test_one_of_two[0]": {"lines": [5], "outcome": "passed"},
    }


@pytest.mark.parametrize("numbers", [(152,), (0,), ("26",), ("H92",), ("h1",), ()])
def test_a_number_that_no_line_has_ends_the_run(request: pytest.FixtureRequest, numbers: tuple[object, ...]) -> None:
    item = pytest.Function.from_parent(request.node.parent, name="test_it", callobj=lambda: None)
    item.add_marker(pytest.mark.conformance(26, 27))
    pytest_collection_modifyitems([item])
    item.add_marker(pytest.mark.conformance(*numbers))
    with pytest.raises(pytest.UsageError, match="conformance has no line"):
        pytest_collection_modifyitems([item])


def test_a_scenario_names_its_lines_in_its_opening_comment() -> None:
    (mark,) = scenario_marks("# why\n# conformance: 26 27\n# conformance: 3 H12\ncluster voters=3\n")
    assert mark.args == (26, 27, 3, "H12")
    assert scenario_marks("# this is about conformance: 26\ncluster voters=3\n") == []

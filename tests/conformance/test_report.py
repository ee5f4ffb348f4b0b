"""The pages contain what the parts contain, are the same for the same parts, and name what is missing.

The run writes which test carried which line and how it ended; an unknown line ends the run.

The list of lines is complete, and malformed entries are rejected.
"""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.conformance import report
from tests.conformance.plugin import pytest_collection_modifyitems, scenario_marks
from tests.conformance.registry import HISTORY, LINES, Line, lines, read
from tests.tidy.repository import ROOT

UNIT = {
    "tests/core/test_raft.py::test_votes[a|b]": {"lines": [1, 2], "outcome": "passed"},
    "tests/core/test_raft.py::test_votes[c]": {"lines": [1], "outcome": "passed"},
    "tests/scenarios/test_scenarios.py::test_scenario[hand_over]": {"lines": [3], "outcome": "passed"},
}
SIM = {"tests/sim/run/test_world.py::test_heals": {"lines": [2], "outcome": "failed"}}


def part(folder: Path, name: str, tests: Mapping[str, object]) -> Path:
    path = folder / name
    path.write_text(json.dumps(tests))
    return path


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(report, "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    return tmp_path / "docs"


def everything() -> dict[str, object]:
    numbers = [line.number for line in lines().values() if line.is_required]
    return {"tests/test_all.py::test_all": {"lines": numbers, "outcome": "passed"}}


def test_parts_are_merged_in_any_order(tmp_path: Path) -> None:
    parts = [part(tmp_path, "unit.json", UNIT), part(tmp_path, "sim.json", SIM)]
    proofs = report.merge(parts)
    assert report.as_page(proofs) == report.as_page(report.merge(reversed(parts)))
    assert report.as_json(proofs) == report.as_json(report.merge(reversed(parts)))
    assert [proof.is_proven for proof in proofs[:4]] == [True, False, True, False]
    assert [proof.open for proof in proofs[:4]] == [None, "a test failed", None, "no test carries it"]


def test_the_page_names_tests_once_and_scenarios_by_their_file(tmp_path: Path) -> None:
    page = report.as_page(report.merge([part(tmp_path, "unit.json", UNIT)]))
    assert "| `core/test_raft.py::test_votes` |" in page
    assert "| `scenarios/hand_over.txt` |" in page


def test_a_test_passed_when_all_its_cases_did(tmp_path: Path) -> None:
    cases = {f"tests/test_a.py::test_a[{case}]": {"lines": [7], "outcome": case} for case in ("passed", "failed", "z")}
    (proof,) = [one for one in report.merge([part(tmp_path, "unit.json", cases)]) if one.line.number == 7]
    assert proof.outcomes == {"tests/test_a.py::test_a": "failed"}
    assert not proof.is_proven


def test_what_waits_is_open_with_its_reason() -> None:
    line = Line(number=1, section="s", statement="It holds.", state="later: Kafka's client APIs")
    proof = report.Proof(line=line, outcomes={})
    assert (proof.is_missing, proof.open) == (False, "later: Kafka's client APIs")
    assert "| 1 | It holds. | Kafka's client APIs |" in report.as_page([proof])


def test_what_does_not_apply_stands_apart_with_its_argument() -> None:
    line = Line(number=1, section="s", statement="It holds.", state="does not apply: there is none here")
    page = report.as_page([report.Proof(line=line, outcomes={})])
    assert "1 lines and 0 rows of the history: 0 are required, 0 of them are proven, and 1 do not apply." in page
    argued = page.partition("## Does not apply")[2]
    assert "| 1 | It holds. | there is none here |" in argued
    assert "It holds" not in page.partition("## Does not apply")[0]
    assert "## Open\n\nNothing.\n\n## Does" in page


def test_a_row_of_the_history_names_its_source() -> None:
    line = Line(number="H1", section="s", statement="It holds.", state="required", source="KAFKA-10527")
    proof = report.Proof(line=line, outcomes={"tests/test_a.py::test_a": "passed"})
    assert "| H1 | It holds. (KAFKA-10527) | `test_a.py::test_a` |" in report.as_page([proof])
    (row,) = json.loads(report.as_json([proof]))
    assert (row["number"], row["source"], row["proven"]) == ("H1", "KAFKA-10527", True)


def test_status_is_0_only_when_all_is_proven_and_the_pages_were_right(
    tmp_path: Path, docs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = str(part(tmp_path, "whole.json", everything()))
    assert report.main([whole]) == 1
    assert "docs/conformance.md was written anew" in capsys.readouterr().err
    assert report.main([whole]) == 0
    assert report.main([whole, str(part(tmp_path, "sim.json", SIM))]) == 1
    assert "line 2: a test failed" in capsys.readouterr().err
    assert {path.name for path in docs.iterdir()} == {"conformance.json", "conformance.md"}


def test_nothing_to_merge_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "PARTS", tmp_path)
    assert report.main([]) == 2
    assert "--conformance-report" in capsys.readouterr().err


@pytest.mark.parametrize("text", [None, "", "[]", '{"a": 1}', '{"a": {"lines": [999], "outcome": "passed"}}'])
def test_what_is_no_part_is_said(
    tmp_path: Path, docs: Path, capsys: pytest.CaptureFixture[str], text: str | None
) -> None:
    path = tmp_path / "part.json"
    if text is not None:
        path.write_text(text)
    assert report.main([str(path)]) == 2
    assert "a part cannot be read" in capsys.readouterr().err
    assert list(docs.iterdir()) == []


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


def line(*, state: str = "required", is_open: str | None = None) -> Line:
    return Line(number=1, section="s", statement="It holds.", state=state, open=is_open)


def test_all_lines_are_there() -> None:
    assert [each.number for each in read(LINES)] == list(range(1, 152))
    assert [each.number for each in read(HISTORY, letter="H")] == [f"H{number}" for number in range(1, 92)]
    assert len({each.statement for each in lines().values()}) == len(lines()) == 151 + 91
    assert [each.number for each in lines().values() if not each.statement.endswith(".")] == []


def test_each_row_of_the_history_has_a_source() -> None:
    sources = re.compile(r"KAFKA-\d{5}|apache/kafka#\d{4,5}|KIP-\d{3}")
    assert [each.number for each in read(HISTORY, letter="H") if not sources.fullmatch(each.source or "")] == []


def test_nothing_waits() -> None:
    assert [each.number for each in lines().values() if each.state.startswith("later")] == []


def test_little_does_not_apply() -> None:
    assert sum(each.is_not_ours for each in lines().values()) <= 10


@pytest.mark.parametrize("state", ["", "someday", "later: when there is time", "does not apply: "])
def test_a_state_that_says_nothing_is_refused(state: str) -> None:
    with pytest.raises(ValueError, match="unknown state"):
        line(state=state)


def test_what_waits_is_not_open_in_part() -> None:
    assert line(is_open="a part: snapshots").is_required
    with pytest.raises(ValueError, match="only what is required"):
        line(state="later: Kafka's client APIs", is_open="a part")


@pytest.mark.parametrize("numbers", [(1, 3), (1, 1), (2,), (2, 1)])
def test_a_list_with_a_hole_is_refused(tmp_path: Path, numbers: tuple[int, ...]) -> None:
    path = tmp_path / "lines.toml"
    rows = [f'[[line]]\nnumber = {n}\nsection = "s"\nstatement = "It holds."\nstate = "required"' for n in numbers]
    path.write_text("\n".join(rows))
    with pytest.raises(ValueError, match="the numbers are not"):
        read(path)


@pytest.mark.parametrize("number", ["1", "h1", "H01", "H2"])
def test_rows_of_the_history_are_numbered_with_their_letter(tmp_path: Path, number: str) -> None:
    path = tmp_path / "history.toml"
    path.write_text(f'[[line]]\nnumber = "{number}"\nsection = "s"\nstatement = "It holds."\nstate = "required"')
    with pytest.raises(ValueError, match="not H1 to H1"):
        read(path, letter="H")

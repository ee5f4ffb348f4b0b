"""The pages contain what the parts contain, are the same for the same parts, and name what is missing."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.conformance import report
from tests.conformance.registry import Line, lines

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

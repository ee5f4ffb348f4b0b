"""The marker ``conformance``: this test proves these lines of ``lines.toml``, or rows of ``history.toml``.

    @pytest.mark.conformance(26, "H12")   on a function, a class, or in ``pytest.param(..., marks=...)``
    # conformance: 26 H12                 in the opening comment of a file of tests/scenarios

A number that the list does not have ends the run. With ``--conformance-report=FILE`` (with the ``=``: pytest takes a
separate word for a path) the run writes which test carried which lines, and how it ended. ``bin/test`` does so for each
stage, and ``python -m tests.conformance.report`` makes docs/conformance.md and .json of all of them. One test may prove
many lines, and one line may need many tests; a test carries a number only if it fails when the behavior is broken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conformance.registry import Number, lines

MARKER = "conformance"
IN_A_SCENARIO = re.compile(r"^# conformance:((?: H?\d+)+)$", re.MULTILINE)


def scenario_marks(text: str) -> list[pytest.MarkDecorator]:
    """The marker that a scenario file's ``# conformance:`` lines stand for, or none."""
    words = [word for found in IN_A_SCENARIO.findall(text) for word in found.split()]
    numbers = [int(word) if word.isdigit() else word for word in words]
    return [pytest.mark.conformance(*numbers)] if numbers else []


class Outcomes:
    """How each test with the marker ended: passed only when nothing of it failed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._carried: dict[str, list[Number]] = {}
        self._outcomes: dict[str, str] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember who carries what, of the tests that will run."""
        carried = {item.nodeid: numbers_of(item) for item in session.items}
        self._carried = {test_id: numbers for test_id, numbers in carried.items() if numbers}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One phase of one test ended."""
        if report.nodeid in self._carried and self._outcomes.get(report.nodeid, "passed") == "passed":
            self._outcomes[report.nodeid] = report.outcome

    def pytest_sessionfinish(self) -> None:
        """Write the part."""
        tests = {
            test_id: {"lines": numbers, "outcome": self._outcomes.get(test_id, "not run")}
            for test_id, numbers in sorted(self._carried.items())
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._path.write_text(json.dumps(tests, indent=1) + "\n", encoding="utf-8")


def numbers_of(item: pytest.Item) -> list[Number]:
    """The lines that a test carries, in order."""
    carried = {number for marker in item.iter_markers(MARKER) for number in marker.args}
    return [number for number in lines() if number in carried]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--conformance-report", metavar="FILE", help="write which lines were carried by which tests")


def pytest_configure(config: pytest.Config) -> None:
    """Collect outcomes when somebody wants them."""
    if path := config.getoption("--conformance-report"):
        config.pluginmanager.register(Outcomes(Path(path)))


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """End the run for a number that no line has, a word in its place, or no number at all."""
    for item in items:
        for marker in item.iter_markers(MARKER):
            unknown = [number for number in marker.args if number not in lines()]
            if unknown or not marker.args:
                raise pytest.UsageError(f"{item.nodeid}: conformance has no line {unknown or '(which?)'}")

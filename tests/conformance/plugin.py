"""The marker ``conformance``: this test proves these lines of ``lines.toml``, or rows of ``history.toml``.

    @pytest.mark.conformance(26, "H12")   on a function, a class, or in ``pytest.param(..., marks=...)``
    # conformance: 26 H12                 in the opening comment of a file of tests/scenarios

A number that the list does not have ends the run. With ``--conformance-report=FILE`` (with the ``=``: pytest takes a
separate word for a path) the run writes which test carried which lines, and how it ended. ``bin/test`` does so for each
stage, and ``python -m tests.conformance.report`` makes docs/conformance.md and .json of all of them. One test may prove
many lines, and one line may need many tests; a test carries a number only if it fails when the behavior is broken.
"""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

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
    """How each test with the marker ended: passed only when nothing of it failed.

    What a test carries comes with its reports, so it may have run in another process.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tests: dict[str, dict[str, Any]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One phase of one test ended."""
        numbers = dict(report.user_properties).get(MARKER)
        if not numbers:
            return
        test = self._tests.setdefault(report.nodeid, {"lines": numbers, "outcome": "passed"})
        if test["outcome"] == "passed":
            test["outcome"] = report.outcome

    def pytest_sessionfinish(self) -> None:
        """Write the part."""
        tests = dict(sorted(self._tests.items()))
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
    """Collect outcomes when somebody wants them; of several processes, the one that hears of all tests."""
    is_worker = hasattr(config, "workerinput")
    if (path := config.getoption("--conformance-report")) and not is_worker:
        config.pluginmanager.register(Outcomes(Path(path)))


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Let each test say what it carries; end the run for a number that no line has, a word, or no number at all."""
    for item in items:
        item.user_properties.append((MARKER, numbers_of(item)))
        for marker in item.iter_markers(MARKER):
            unknown = [number for number in marker.args if number not in lines()]
            if unknown or not marker.args:
                raise pytest.UsageError(f"{item.nodeid}: conformance has no line {unknown or '(which?)'}")

"""Bugs at the borders of a node, each with the test that must catch it; and whether that test does.

A file of bugs is TOML; one table is one bug::

    [name_of_the_bug]
    path = "server/links.py"                     # below src/pykraft, or lab/...
    before = "while self._ready and self._room:" # stands there exactly once
    after = "while self._ready:"
    story = "One turn of the loop serves all requests that wait."
    test = "tests/server/test_links.py::test_turns"

Invariant: the clone is never changed; each bug is planted in a copy of the package, and the test imports that copy.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.sim.strength import PACKAGE, Edit, planted_copy
from tests.tidy.repository import ROOT

BORDERS: Final = Path(__file__).with_name("borders.toml")
TIMEOUT_S: Final = 3_600.0
"""More than all tests here take together, on a busy machine too; each test has a shorter timeout of its own."""
PASSED, FAILED = 0, 1
"""Exit status of pytest; any other one says that the test was not run."""
LONGEST_REASON: Final = 200
_REASONS: Final = (
    re.compile(r"^E +(assert .*|AssertionError.*)$", re.MULTILINE),
    re.compile(r"^E +(\S.*)$", re.MULTILINE),
)
"""What pytest prints of a failure: rather what the test asserts than an error that was handled before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bug(Edit):
    """An edit, and the pytest node id of the test that must fail with it."""

    test: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a bug; ``reason`` is the first line of the test's failure."""

    name: str
    test: str
    is_caught: bool
    reason: str


def judge(bug: Bug) -> Verdict:
    """Run a bug's test on a copy with the bug. Errors: ValueError when the bug cannot be planted."""
    with tempfile.TemporaryDirectory(prefix="planted-") as folder:
        planted_copy(bug, Path(folder))
        status, output = play(bug.test, sources=Path(folder))
    return Verdict(name=bug.name, test=bug.test, is_caught=status == FAILED, reason=_reason(output))


def play(*tests: str, sources: Path = PACKAGE.parent) -> tuple[int, str]:
    """Run tests with the package in this folder; pytest's exit status and its output."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"]
    command += ["-o", f"pythonpath={sources} {ROOT}", *tests]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=_environment(sources),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    return done.returncode, done.stdout


def _environment(sources: Path) -> Mapping[str, str]:
    """Ours, so that processes which the test starts import the same copy; without what pytest-xdist told us."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    return {**ours, "PYTHONPATH": str(sources)}


def _reason(output: str) -> str:
    for pattern in _REASONS:
        if found := pattern.search(output):
            return found[1][:LONGEST_REASON]
    return (output.strip().splitlines() or ["no output"])[-1]

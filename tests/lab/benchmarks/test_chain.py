"""The limit for one caller is measured with processes, sockets and files, and what it prints is what it measured."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.repository import ROOT

COMMAND = (sys.executable, str(ROOT / "lab" / "benchmarks" / "chain.py"))


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, check=False)


def test_each_run_and_the_median_of_all(tmp_path: Path) -> None:
    ended = run("--records", "20", "--runs", "3", "--directory", str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    *runs, rates, medians, _ = ended.stdout.splitlines()
    assert len(runs) == 3
    found = sorted(float(each.partition("p50 ")[2].partition(" ms")[0]) for each in runs)
    assert medians == f"p50 ms: {found[1]:.2f} ({found[0]:.2f}–{found[2]:.2f})"
    assert re.fullmatch(r"records/s: [0-9.,]+ \([0-9.,]+–[0-9.,]+\)", rates)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "told"),
    [(("--records", "1"), "at least two records"), (("--directory", "nowhere"), "nowhere is not a directory")],
)
def test_what_cannot_be_measured_is_refused(words: tuple[str, ...], told: str) -> None:
    ended = run(*words)
    assert ended.returncode == 2
    assert told in ended.stderr

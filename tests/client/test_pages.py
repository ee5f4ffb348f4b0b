"""The programs in the documentation run as printed, with nothing but the package."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pykraft.local.cluster import SOURCES
from tests.lag import without_lag
from tests.tidy.repository import ROOT

EXPECTED = {
    "README.md": ["Committed(base_offset=1, epoch=1, count=2)"],
    "docs/client.md": ["1 hello", "2 world", "LeaderAndEpoch(leader_id=1"],
}


def programs(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


@pytest.mark.parametrize("page", EXPECTED)
def test_the_programs_on_the_page_run(page: str, tmp_path: Path) -> None:
    told = ""
    for program in programs(page):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=os.environ | {"PYTHONPATH": str(SOURCES)},
        )
        assert (done.returncode, without_lag(done.stderr)) == (0, "")
        told += done.stdout
    for words in EXPECTED[page]:
        assert words in told


def test_the_program_of_the_readme_is_short() -> None:
    [program] = programs("README.md")
    assert len([line for line in program.splitlines() if line.strip()]) <= 10

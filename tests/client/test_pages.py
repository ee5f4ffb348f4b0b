"""The program of the README is short, and runs without a warning; `tests.documented` runs those of all pages."""

import os
import re
import subprocess
import sys
from pathlib import Path

from pykraft.local.voters import SOURCES
from tests.loops import without_lag
from tests.tidy.repository import ROOT


def program_of_the_readme() -> str:
    [program] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return str(program)


def test_the_program_of_the_readme_warns_of_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program_of_the_readme()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"PYTHONPATH": str(SOURCES)},
    )
    assert (done.returncode, without_lag(done.stderr)) == (0, "")
    assert done.stdout == "1 {'x': 1}\n"


def test_the_program_of_the_readme_is_short() -> None:
    program = program_of_the_readme()
    assert len([line for line in program.splitlines() if line.strip()]) <= 26

"""Compiled nodes do what plain ones do: worlds, scenarios, unit tests, and a wheel that is installed.

The compiled package is built once for each version of the source, which takes some minutes.
"""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from compiled.build import build

pytestmark = [pytest.mark.compiled, pytest.mark.timeout(1_200)]

ROOT = Path(__file__).resolve().parents[2]
PLAIN = ROOT / "src"
RULES = ("tests/scenarios", "tests/core", "tests/rpc")
"""Tests of the pure rules. Those of files and threads replace parts of modules, which compiled code does not notice."""


@pytest.fixture(scope="session")
def compiled() -> Path:
    return build()


def python(package: Path, *words: str) -> str:
    """What a Python prints that finds pykraft in this folder."""
    environment = {**os.environ, "PYTHONPATH": str(package)}
    done = subprocess.run(
        [sys.executable, "-P", *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3_000:] + done.stderr[-3_000:]
    return done.stdout


def digests(package: Path, faults: str, seeds: str) -> dict[int, str]:
    """What stands for everything that happened in each world."""
    told = python(package, "-m", "pykraft", "sim", "run", "--seeds", seeds, "--faults", faults, "--json")
    rows = [json.loads(line) for line in told.splitlines()]
    return {row["seed"]: row["digest"] for row in rows if "seed" in row}


def test_the_rules_run_from_machine_code(compiled: Path) -> None:
    asked = "import pykraft.core.raft as rules; print(rules.__file__)"
    assert python(compiled, "-c", asked).startswith(str(compiled))
    assert python(compiled, "-c", asked).strip().endswith(".so")
    assert python(PLAIN, "-c", asked).strip().endswith("raft.py")
    told = "from pykraft.process.extras import is_compiled; print(is_compiled())"
    assert (python(compiled, "-c", told), python(PLAIN, "-c", told)) == ("True\n", "False\n")


@pytest.mark.parametrize(("faults", "count"), [("all", 8), ("neverleads", 2)])
def test_everything_that_happens_in_a_world_is_the_same(faults: str, count: int, compiled: Path) -> None:
    expected = digests(PLAIN, faults, f"0:{count}")
    assert len(expected) == count
    assert digests(compiled, faults, f"0:{count}") == expected


def test_scenarios_and_the_tests_of_the_rules_pass(compiled: Path) -> None:
    chosen = ["-o", f"pythonpath={compiled} .", "-n", "auto", "-m", "not (interpreted or sim or processes)"]
    told = python(compiled, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen, *RULES)
    assert "passed" in told


def test_a_wheel_has_the_compiled_modules_if_asked(compiled: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "HATCH_BUILD_HOOK_ENABLE_CUSTOM": "1"}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    [wheel] = tmp_path.glob("*.whl")
    assert not wheel.name.endswith("none-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    found = python(tmp_path / "installed", "-c", "import pykraft.core.raft as rules; print(rules.__file__)")
    assert found.startswith(str(tmp_path / "installed" / "pykraft" / "core" / "raft."))
    assert found.strip().endswith(".so")

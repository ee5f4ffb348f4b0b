"""The file of results: one line of JSON for the machine, then one for each run, so that a stopped suite can go on.

A line is written after its run and flushed at once. Invariant: a file holds runs of one kind of machine and one version
of the sources; a last line that was cut short by a kill is ignored, and its run is repeated. A run also has how much of
the machine other programs used right before it; the load average is mostly the run before.

Source: ``proc(5)``, /proc/stat.
"""

import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from lab.bench.measure import machine
from pykraft.errors import UsageError

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteRun:
    """One run of one contender in one turn of a case; a failed run has a reason and no figures."""

    case: str
    contender: str
    turn: int
    figures: Mapping[str, float] = field(default_factory=dict)
    failure: str | None = None
    busy_cores_before: float = 0.0
    """Cores that other programs used right before it (`lab.benchmarks.suite.results`)."""


class Results:
    """The runs so far, and the file that gets new ones."""

    def __init__(self, path: Path, settings: Mapping[str, object] | None = None) -> None:
        """Read the file. With ``settings`` create it if it is missing. Errors: UsageError."""
        self.path = path
        lines = list(_lines(path)) if path.exists() else []
        if not lines:
            if settings is None:
                raise UsageError(f"{path}: there are no results in it")
            path.parent.mkdir(parents=True, exist_ok=True)
            lines = [{"machine": machine(), "commit": commit(), "settings": dict(settings)}]
            path.write_text(json.dumps(lines[0], default=str) + "\n")
        elif not path.read_bytes().endswith(b"\n"):
            path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.head: Mapping[str, Any] = lines[0]
        if "machine" not in self.head:
            raise UsageError(f"{path}: it is not a file of results of this suite")
        self.runs = [_run(path, number, line) for number, line in enumerate(lines[1:], start=2)]

    def has(self, case: str, contender: str, turn: int) -> bool:
        """True if this run is done."""
        return any((run.case, run.contender, run.turn) == (case, contender, turn) for run in self.runs)

    def add(self, run: SuiteRun) -> None:
        self.runs.append(run)
        with self.path.open("a") as file:
            file.write(json.dumps(asdict(run)) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def document(self) -> dict[str, Any]:
        return {**self.head, "runs": [asdict(run) for run in self.runs]}


def commit() -> str:
    """The commit of the sources, with a plus sign if files were changed; nothing outside of a clone."""
    try:
        told = subprocess.run(
            ["git", "describe", "--always", "--abbrev=10", "--dirty=+"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return told.stdout.strip()


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Errors: UsageError for a line that is not JSON, unless it is the last one."""
    texts = path.read_text().splitlines()
    for number, text in enumerate(texts, start=1):
        try:
            line = json.loads(text)
        except ValueError as error:
            if number == len(texts):
                return
            raise UsageError(f"{path}: line {number} is not JSON") from error
        if not isinstance(line, dict):
            raise UsageError(f"{path}: line {number} is not a run")
        yield line


def _run(path: Path, number: int, line: Mapping[str, Any]) -> SuiteRun:
    try:
        return SuiteRun(**line)
    except TypeError as error:
        raise UsageError(f"{path}: line {number} is not a run") from error


STAT: Final = Path("/proc/stat")
LOOK_S: Final = 0.5
IDLE: Final = (3, 4)
"""Of the times in a line: idle, and waiting for a disk."""


def busy_cores(stat: Path = STAT, look_s: float = LOOK_S) -> float:
    """Cores that are in use, on average of half a second; where the system does not tell, the load average."""
    try:
        before = _ticks(stat)
        time.sleep(look_s)
        after = _ticks(stat)
    except OSError:
        return os.getloadavg()[0]
    passed = [later - earlier for earlier, later in zip(before, after, strict=True)]
    all_ticks = sum(passed)
    busy_ticks = all_ticks - sum(passed[at] for at in IDLE)
    return busy_ticks / all_ticks * (os.cpu_count() or 1) if all_ticks else 0.0


def _ticks(stat: Path) -> list[int]:
    """Times of all cores together: user, nice, system, idle, waiting, interrupts (two) and stolen."""
    words = stat.read_text(encoding="ascii").splitlines()[0].split()
    return [int(word) for word in words[1:9]]

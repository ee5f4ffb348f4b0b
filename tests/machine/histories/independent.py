"""The independent checker: porcupine, a library in Go, in a program of ours that reads our histories.

Source: Athalye, "Porcupine: A fast linearizability checker in Go" (2017).
"""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pykraft.errors import UsageError
from tests.go_program import go_program

SOURCES: Final = Path(__file__).parent / "porcupine"
TIMEOUT_S: Final = 600.0
GROUP_TIMEOUT: Final = "60s"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndependentVerdict:
    """``refused`` and ``undecided`` name groups."""

    groups: int
    calls: int
    refused: tuple[str, ...]
    undecided: tuple[str, ...]


def checked(history: Path, page: Path | None = None) -> IndependentVerdict:
    """Judge a history; ``page`` shows the first group that is refused. Errors: UsageError without Go."""
    words = [str(program()), "-timeout", GROUP_TIMEOUT, *(["-page", str(page)] if page else []), str(history)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode:
        raise UsageError(f"porcupine cannot read {history}: {done.stderr.strip()}")
    told = json.loads(done.stdout)
    return IndependentVerdict(
        groups=told["groups"], calls=told["calls"], refused=tuple(told["refused"]), undecided=tuple(told["undecided"])
    )


def program() -> Path:
    """The program; builds it first if necessary. Errors: UsageError."""
    return go_program(SOURCES, "porcupine")

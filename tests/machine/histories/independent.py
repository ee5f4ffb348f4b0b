"""The independent checker: porcupine, a library in Go, in a program of ours that reads our histories.

It is built into the user's cache folder, by the hash of its sources; ``go.sum`` pins the library.

Source: Athalye, "Porcupine: A fast linearizability checker in Go" (2017).
"""

import hashlib
import json
import os
import shutil
import subprocess
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from pykraft.errors import UsageError
from pykraft.process.extras import cache_folder

SOURCES: Final = Path(__file__).parent / "porcupine"
GO_PLACES: Final = ("/usr/local/go/bin", "/usr/lib/go/bin")
"""Where Go is on machines whose PATH lacks it."""
BUILD_TIMEOUT_S: Final = 300.0
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


@cache
def program() -> Path:
    """The program; builds it first if necessary. Errors: UsageError."""
    sources = sorted(SOURCES.iterdir())
    digest = hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in sources)).hexdigest()[:12]
    found = cache_folder() / f"histories-{digest}"
    if not found.exists():
        go = shutil.which("go", path=os.pathsep.join([os.environ.get("PATH", ""), *GO_PLACES]))
        if go is None:
            raise UsageError("there is no go, and porcupine is written in it; on Debian: apt-get install golang-go")
        found.parent.mkdir(parents=True, exist_ok=True)
        unfinished = found.with_name(
            f"{found.name}.{os.getpid()}.{threading.get_ident()}"
        )  # two groups are judged at once
        words = [go, "build", "-o", str(unfinished), "."]
        done = subprocess.run(words, cwd=SOURCES, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
        if done.returncode:
            raise UsageError(f"porcupine cannot be built: {done.stderr.strip() or done.stdout.strip()}")
        unfinished.rename(found)
    return found

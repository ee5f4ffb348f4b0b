"""Programs of ours in Go: built into the user's cache folder, by the hash of their sources; ``go.sum`` pins libraries.

A folder may have a second edition of its ``go.mod``, ``go.debian.mod``, for the Go that Debian has.
"""

import hashlib
import os
import re
import shutil
import subprocess
import threading
from functools import cache
from pathlib import Path
from typing import Final

from pykraft.errors import UsageError
from pykraft.process.extras import cache_folder

PLACES: Final = ("/usr/local/go/bin", "/usr/lib/go/bin")
"""Where Go is on machines whose PATH lacks it."""
BUILD_TIMEOUT_S: Final = 300.0
DEBIAN: Final = "go.debian.mod"


@cache
def go_program(sources: Path, name: str) -> Path:
    """The program of this folder; builds it first if necessary. Errors: UsageError."""
    go = shutil.which("go", path=os.pathsep.join([os.environ.get("PATH", ""), *PLACES]))
    edition = [] if go is None or not _is_too_old(go, sources) else [f"-modfile={DEBIAN}"]
    files = [path.name.encode() + path.read_bytes() for path in sorted(sources.iterdir())]
    digest = hashlib.sha256(b"".join([*files, *(word.encode() for word in edition)])).hexdigest()[:12]
    found = cache_folder() / f"{name}-{digest}"
    if not found.exists():
        if go is None:
            raise UsageError(f"there is no go, and {name} is written in it; on Debian: apt-get install golang-go")
        found.parent.mkdir(parents=True, exist_ok=True)
        # Two tests may build it at once.
        unfinished = found.with_name(f"{found.name}.{os.getpid()}.{threading.get_ident()}")
        words = [go, "build", *edition, "-o", str(unfinished), "."]
        done = subprocess.run(words, cwd=sources, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False)
        if done.returncode:
            raise UsageError(f"{name} cannot be built: {done.stderr.strip() or done.stdout.strip()}")
        unfinished.rename(found)
    return found


def _is_too_old(go: str, sources: Path) -> bool:
    if not (sources / DEBIAN).exists():
        return False
    told = subprocess.run([go, "version"], capture_output=True, text=True, check=False).stdout
    return _version(r"go version go(\d+)\.(\d+)", told) < _version(
        r"\ngo (\d+)\.(\d+)", (sources / "go.mod").read_text()
    )


def _version(pattern: str, text: str) -> tuple[int, ...]:
    found = re.search(pattern, text)
    return tuple(map(int, found.groups())) if found is not None else (0, 0)

"""``python -m tests.documented PAGE...`` runs the blocks of pages, each on a machine of its own."""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.documented.blocks import pages
from tests.documented.machine import inside, prepare
from tests.documented.page import run_page
from tests.documented.terminal import PageError
from tests.tidy.repository import ROOT

INSIDE = "--inside"


def main(arguments: list[str]) -> int:
    """Run the named pages, or all; print everything. The status is 1 when one does not hold."""
    if arguments[:1] == [INSIDE]:
        return _run_inside(arguments[1])
    worst = 0
    for page in arguments or pages():
        done = subprocess.run(
            inside([sys.executable, "-m", "tests.documented", INSIDE, page]), cwd=ROOT, check=False, timeout=1800
        )
        print(f"{page}: {'holds' if done.returncode == 0 else 'DOES NOT HOLD'}", flush=True)
        worst = max(worst, done.returncode)
    return 1 if worst else 0


def _run_inside(page: str) -> int:
    prepare()
    try:
        with tempfile.TemporaryDirectory() as output:
            run_page(page, Path(output), lambda words: print(words, flush=True))
    except PageError as error:
        print(error, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

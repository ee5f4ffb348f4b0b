"""Runs the tests of the stage spark with the oldest pyspark that has all of what they test.

    python -m tests.spark.oldest_pyspark [words for pytest]

The first run fetches it (some 430 MB) into a folder beside the environment's own packages.
"""

import os
import subprocess
import sys
from pathlib import Path

from tests.beside import environment, install

REQUIREMENTS = Path(__file__).with_name("pyspark-4.2.txt")


def main(words: list[str]) -> None:
    """The command line; this process becomes pytest. Errors: SystemExit when the version is not that."""
    ours = environment(install(REQUIREMENTS))
    ask = [sys.executable, "-c", "import pyspark; print(pyspark.__version__)"]
    version = subprocess.run(ask, env=ours, check=True, capture_output=True, text=True).stdout.strip()
    print(f"pyspark {version}", flush=True)
    if not REQUIREMENTS.stem.endswith(version.rpartition(".")[0]):
        sys.exit(2)
    pytest = [sys.executable, "-m", "pytest", "-m", "spark", *(words or ["tests"])]
    os.execve(sys.executable, pytest, ours)  # noqa: S606 - signals reach it


if __name__ == "__main__":
    main(sys.argv[1:])

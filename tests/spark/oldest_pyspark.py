"""Runs the tests of the stage spark with the oldest pyspark that the package takes.

    python -m tests.spark.oldest_pyspark [words for pytest]

The first run fetches it (some 430 MB) into a folder beside the environment's own packages, which come after it on the
path. So the environment stays as it is, and everything but pyspark and py4j is what the locks say.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("pyspark-4.2.txt")
FOLDER = Path(sys.prefix) / REQUIREMENTS.stem
INSTALLED = FOLDER / REQUIREMENTS.name
"""A copy of the requirements, written last."""


def install() -> None:
    """Fetch it, unless this was done. Errors: CalledProcessError when pip fails."""
    if INSTALLED.is_file() and INSTALLED.read_bytes() == REQUIREMENTS.read_bytes():
        return
    print(f"fetching {REQUIREMENTS.stem} into {FOLDER}", file=sys.stderr, flush=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet", "--upgrade"]
    exactly = ["--require-hashes", "--no-deps", "--no-build-isolation", "--requirement", str(REQUIREMENTS)]
    subprocess.run([*pip, "--target", str(FOLDER), *exactly], check=True)
    INSTALLED.write_bytes(REQUIREMENTS.read_bytes())


def environment() -> dict[str, str]:
    """Ours, with the folder first on the path of every Python, and so also as Spark's home."""
    known = os.environ.get("PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    return kept | {"PYTHONPATH": os.pathsep.join([str(FOLDER), known] if known else [str(FOLDER)])}


def main(words: list[str]) -> None:
    """The command line; this process becomes pytest. Errors: SystemExit when the version is not that."""
    install()
    ours = environment()
    ask = [sys.executable, "-c", "import pyspark; print(pyspark.__version__)"]
    version = subprocess.run(ask, env=ours, check=True, capture_output=True, text=True).stdout.strip()
    print(f"pyspark {version}", flush=True)
    if not REQUIREMENTS.stem.endswith(version.rpartition(".")[0]):
        sys.exit(2)
    pytest = [sys.executable, "-m", "pytest", "-m", "spark", *(words or ["tests"])]
    os.execve(sys.executable, pytest, ours)  # noqa: S606 - signals reach it


if __name__ == "__main__":
    main(sys.argv[1:])

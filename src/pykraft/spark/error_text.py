"""Extracts the reason from an error text of Spark: a Java trace around a Python trace around one line of ours.

Invariant: an error of ours comes back as an instance of its own class, so that callers need not know Spark.

Source: PySpark's ``PythonException`` and ``StreamingQueryException``, which carry the worker's traceback as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pykraft import errors
from pykraft.errors import CorruptionError, PykraftError, StorageError, UsageError

LINES_MAX = 3
OURS = re.compile(r"\bpykraft\.errors\.(\w+): (.*)")
DAMAGE = re.compile(r"(.+): at position (\d+): expected (.+), found (.+)")


def error_in(text: str) -> PykraftError | None:
    """The last error of ours in the text, as an instance of its class; None if there is none."""
    found = OURS.findall(text)
    return _revived(*found[-1]) if found else None


def reason(text: str) -> str:
    """One line: the error of ours, or else the first meaningful lines of the text."""
    ours = error_in(text)
    return str(ours) if ours is not None else " ".join(_telling(text)) or "Spark gives no reason"


def _telling(text: str) -> Iterator[str]:
    """The first lines before the stack trace."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines[:LINES_MAX]:
        if line.startswith(("at ", "=== ", "Traceback", "JVM stacktrace")):
            return
        yield line


def _revived(name: str, text: str) -> PykraftError:
    kind = getattr(errors, name, PykraftError)
    damage = DAMAGE.fullmatch(text)
    if kind is CorruptionError and damage:
        return CorruptionError(damage[1], position=int(damage[2]), expected=damage[3], found=damage[4])
    if issubclass(kind, StorageError):
        path, _, problem = text.partition(": ")
        return StorageError(path, problem)
    return UsageError(text) if issubclass(kind, UsageError) else PykraftError(text)

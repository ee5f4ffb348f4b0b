"""Errors of ours on their way through Spark: without a traceback there, and as errors of ours again here.

Spark makes a text of an error: a Java trace around a Python trace around one line of ours. Invariant: an error of ours
comes back as an instance of its own class. Only errors that we raise on purpose lose their frames; a bug keeps them.

Source: PySpark's ``PythonException`` and ``StreamingQueryException``; its workers (``traceback.format_exc()``).
"""

import re
from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

from pykraft import errors
from pykraft.errors import CorruptionError, PykraftError, StorageError, TruncatedLogError, UsageError

P = ParamSpec("P")
T = TypeVar("T")


LINES_MAX = 3
OURS = re.compile(r"\bpykraft\.errors\.(\w+): (.*)")
DAMAGE = re.compile(r"(.+): at position (\d+): expected (.+), found (.+)")


def without_traceback(act: Callable[P, T]) -> Callable[P, T]:
    """Wrap a function so that its errors have no traceback."""

    @wraps(act)
    def plain(*words: P.args, **named: P.kwargs) -> T:
        try:
            return act(*words, **named)
        except PykraftError as error:
            raise error.with_traceback(None) from None

    return plain


def rows_without_traceback(act: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:

    @wraps(act)
    def plain(*words: P.args, **named: P.kwargs) -> Iterator[T]:
        try:
            yield from act(*words, **named)
        except PykraftError as error:
            raise error.with_traceback(None) from None

    return plain


def error_in(text: str) -> PykraftError | None:
    """The last error of ours in the text, as an instance of its class; None if there is none."""
    found = OURS.findall(text)
    return _revived(*found[-1]) if found else None


def reason(text: str) -> str:
    """One line: the error of ours, or else the first meaningful lines of the text."""
    ours = error_in(text)
    return str(ours) if ours is not None else " ".join(_telling(text)) or "Spark gives no reason"


def _telling(text: str) -> Iterator[str]:
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
    if kind is TruncatedLogError:
        return TruncatedLogError(text)
    return UsageError(text) if issubclass(kind, UsageError) else PykraftError(text)

"""Strips the traceback of our own errors before Spark shows them, so that the reason is not at the end of sixty lines.

Spark copies the whole traceback of a Python process into its message. Invariant: only errors that we raise on purpose
lose their frames and causes; a bug keeps them.

Source: PySpark's workers, which send ``traceback.format_exc()``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

from pykraft.errors import PykraftError

P = ParamSpec("P")
T = TypeVar("T")


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
    """The same for a generator."""

    @wraps(act)
    def plain(*words: P.args, **named: P.kwargs) -> Iterator[T]:
        try:
            yield from act(*words, **named)
        except PykraftError as error:
            raise error.with_traceback(None) from None

    return plain

"""Errors of ours as Spark shows them: without our insides, so that what is wrong is not at the end of sixty lines.

Spark copies the whole traceback of a Python process into its own message. Invariant: only errors that we raise on
purpose lose their frames and causes; a bug keeps all.

Source: PySpark's workers, which send ``traceback.format_exc()``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

from pykraft.errors import PykraftError

P = ParamSpec("P")
T = TypeVar("T")


def plainly(act: Callable[P, T]) -> Callable[P, T]:
    """The same function, whose errors are plain."""

    @wraps(act)
    def plain(*words: P.args, **named: P.kwargs) -> T:
        try:
            return act(*words, **named)
        except PykraftError as error:
            raise error.with_traceback(None) from None

    return plain


def plain_rows(act: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """The same for what yields."""

    @wraps(act)
    def plain(*words: P.args, **named: P.kwargs) -> Iterator[T]:
        try:
            yield from act(*words, **named)
        except PykraftError as error:
            raise error.with_traceback(None) from None

    return plain

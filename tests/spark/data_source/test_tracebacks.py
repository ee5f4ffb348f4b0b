"""An error of ours becomes one line, wherever it was raised; a bug keeps its traceback."""

from __future__ import annotations

import traceback
from collections.abc import Iterator

import pytest

from pykraft.errors import UsageError
from pykraft.spark.data_source.tracebacks import rows_without_traceback, without_traceback


def deep(kind: type[Exception]) -> int:
    try:
        return int("x")
    except ValueError as error:
        raise kind("what is wrong") from error


@without_traceback
def one(kind: type[Exception]) -> int:
    """What it does."""
    return deep(kind)


@rows_without_traceback
def many(kind: type[Exception]) -> Iterator[int]:
    yield 1
    yield deep(kind)


@pytest.mark.parametrize("act", [one, lambda kind: list(many(kind))])
def test_an_error_of_ours_is_plain_and_a_bug_is_not(act: object) -> None:
    assert callable(act)
    with pytest.raises(UsageError) as ours:
        act(UsageError)
    told = "".join(traceback.format_exception(ours.value))
    assert told.endswith("pykraft.errors.UsageError: what is wrong\n")
    assert "ValueError" not in told
    assert "in deep" not in told
    with pytest.raises(KeyError) as bug:
        act(KeyError)
    told = "".join(traceback.format_exception(bug.value))
    assert "ValueError" in told
    assert "in deep" in told


def test_the_rest_is_as_it_was() -> None:
    assert one.__doc__ == "What it does."
    assert next(many(UsageError)) == 1

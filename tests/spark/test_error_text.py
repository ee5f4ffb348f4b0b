"""One line is extracted from Spark's error text; an error of ours is recognized."""

import traceback
from collections.abc import Iterator

import pytest

from pykraft import errors
from pykraft.spark.error_text import error_in, reason, rows_without_traceback, without_traceback

STORY = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted
Traceback (most recent call last):
  File "decode.py", line 7, in records_of
{}
	at org.apache.spark.Something
"""
DAMAGE = errors.CorruptionError("n1/0.log", position=70, expected="a valid batch", found="one, with CRC 1")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (DAMAGE, errors.CorruptionError),
        (errors.CorruptionError("a: b", position=0, expected="x", found="y"), errors.CorruptionError),
        (errors.StorageError("n1", "no longer has any segments"), errors.StorageError),
        (errors.ForeignDirectoryError("n1", "is another's"), errors.StorageError),
        (errors.UsageError("the option rows = 'x'"), errors.UsageError),
        (errors.QuorumUnavailableError("nobody answers"), errors.PykraftError),
    ],
)
def test_an_error_of_ours_comes_back(error: errors.PykraftError, kind: type[errors.PykraftError]) -> None:
    for line in (
        f"pykraft.errors.{type(error).__name__}: {error}",
        f"  x: pykraft.errors.{type(error).__name__}: {error}",
    ):
        found = error_in(STORY.format(line))
        assert type(found) is kind
        assert str(found) == str(error)
        assert reason(STORY.format(line)) == str(error)


def test_the_last_one_counts() -> None:
    assert reason("pykraft.errors.UsageError: first\npykraft.errors.UsageError: last\n") == "last"


@pytest.mark.parametrize(
    ("story", "told"),
    [
        ("\n\n a\nb\nc\nd\n", "a b c"),
        ("terminated\n=== Streaming Query ===\nId", "terminated"),
        ("java.io.EOFException\n\tat java.base/x", "java.io.EOFException"),
        ("", "Spark gives no reason"),
    ],
)
def test_without_one_the_begin_says_what_it_can(story: str, told: str) -> None:
    assert error_in(story) is None
    assert reason(story) == told


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
    with pytest.raises(errors.UsageError) as ours:
        act(errors.UsageError)
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
    assert next(many(errors.UsageError)) == 1

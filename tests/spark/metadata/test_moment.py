"""A moment is an offset or a time; both say which records were there."""

from __future__ import annotations

import pytest

from pykraft.errors import UsageError
from pykraft.spark.metadata.moment import NOW, Moment, parse_moment
from pykraft.types import Offset


def test_an_offset_is_exclusive_and_a_time_inclusive() -> None:
    assert [Moment(end_offset=Offset(2)).includes(Offset(offset), 0) for offset in (1, 2)] == [True, False]
    assert [Moment(wall_ms=5).includes(Offset(0), time) for time in (5, 6)] == [True, False]
    assert NOW.includes(Offset(2**62), 2**62)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("157", Moment(end_offset=Offset(157))),
        ("1970-01-01T00:01", Moment(wall_ms=60_000)),
        ("1970-01-01T00:01:00.5Z", Moment(wall_ms=60_500)),
        ("1970-01-01 01:01+01:00", Moment(wall_ms=60_000)),
    ],
)
def test_texts_of_moments(text: str, moment: Moment) -> None:
    assert parse_moment(text, "--as-of") == moment


@pytest.mark.parametrize("text", ["", "yesterday", "-1", "14:03", "9" * 19, "2026-13-01"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=f"--as-of {text}: "):
        parse_moment(text, "--as-of")

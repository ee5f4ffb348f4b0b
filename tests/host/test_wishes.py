"""Each who asked for an upgrade is told once."""

from __future__ import annotations

from pykraft.errors import NotRunningError, UsageError
from pykraft.host.wishes import Wishes


def test_each_hears_its_own_answer() -> None:
    told: list[tuple[str, Exception | None]] = []
    wishes = Wishes()
    first = wishes.begin(lambda error: told.append(("first", error)))
    second = wishes.begin(lambda error: told.append(("second", error)))
    refusal = UsageError("no")
    wishes.answered(second, refusal)
    wishes.answered(first, None)
    wishes.end()
    assert told == [("second", refusal), ("first", None)]


def test_the_end_of_the_node_is_an_answer_too() -> None:
    told: list[Exception | None] = []
    wishes = Wishes()
    wishes.begin(told.append)
    wishes.end()
    wishes.end()
    assert [type(error) for error in told] == [NotRunningError]

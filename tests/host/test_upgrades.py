"""Each who asked for an upgrade is told once."""

from __future__ import annotations

from pykraft.errors import NotRunningError, UsageError
from pykraft.host.upgrades import Upgrades


def test_each_hears_its_own_answer() -> None:
    told: list[tuple[str, Exception | None]] = []
    upgrades = Upgrades()
    first = upgrades.begin(lambda error: told.append(("first", error)))
    second = upgrades.begin(lambda error: told.append(("second", error)))
    refusal = UsageError("no")
    upgrades.answered(second, refusal)
    upgrades.answered(first, None)
    upgrades.end()
    assert told == [("second", refusal), ("first", None)]


def test_the_end_of_the_node_is_an_answer_too() -> None:
    told: list[Exception | None] = []
    upgrades = Upgrades()
    upgrades.begin(told.append)
    upgrades.end()
    upgrades.end()
    assert [type(error) for error in told] == [NotRunningError]

"""Each caller of an upgrade or a transfer gets one outcome.

Source: KIP-584; Kafka's ``QuorumController.updateFeatures``.
"""

from __future__ import annotations

from pykraft.errors import NotRunningError, OutcomeUnknownError, UsageError
from pykraft.host.pending_requests import Wishes


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
    assert [type(error) for error in told] == [OutcomeUnknownError]


def test_a_wish_that_comes_after_the_end_is_refused() -> None:
    told: list[Exception | None] = []
    wishes = Wishes()
    wishes.refuse(wishes.begin(told.append))
    wishes.end()
    assert [type(error) for error in told] == [NotRunningError]

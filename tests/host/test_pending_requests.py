"""Each caller of an upgrade or a transfer gets one outcome.

Each caller that wants to read gets one outcome.

Source: KIP-584; Kafka's ``QuorumController.updateFeatures``; Raft dissertation §6.4.
"""

from __future__ import annotations

from typing import Any

from pykraft.errors import NotLeaderError, NotRunningError, OutcomeUnknownError, UsageError
from pykraft.host.pending_requests import PendingReads, PendingRequests
from pykraft.types import Offset


def test_each_hears_its_own_answer() -> None:
    told: list[tuple[str, Exception | None]] = []
    pending_requests = PendingRequests()
    first = pending_requests.begin(lambda error: told.append(("first", error)))
    second = pending_requests.begin(lambda error: told.append(("second", error)))
    refusal = UsageError("no")
    pending_requests.answered(second, refusal)
    pending_requests.answered(first, None)
    pending_requests.end()
    assert told == [("second", refusal), ("first", None)]


def test_the_end_of_the_node_is_an_answer_too() -> None:
    told: list[Exception | None] = []
    pending_requests = PendingRequests()
    pending_requests.begin(told.append)
    pending_requests.end()
    pending_requests.end()
    assert [type(error) for error in told] == [OutcomeUnknownError]


def test_a_request_that_comes_after_the_end_is_refused() -> None:
    told: list[Exception | None] = []
    pending_requests = PendingRequests()
    pending_requests.refuse(pending_requests.begin(told.append))
    pending_requests.end()
    assert [type(error) for error in told] == [NotRunningError]


def test_each_hears_its_own_outcome() -> None:
    told: list[tuple[str, Any]] = []
    reads = PendingReads()
    first = reads.begin(lambda outcome: told.append(("first", outcome)))
    second = reads.begin(lambda outcome: told.append(("second", outcome)))
    refusal = NotLeaderError(2, 5)
    reads.answered(second, refusal)
    reads.answered(first, Offset(9))
    reads.end()
    assert told == [("second", refusal), ("first", 9)]


def test_the_end_of_the_node_is_an_outcome_too() -> None:
    told: list[Any] = []
    reads = PendingReads()
    reads.begin(told.append)
    reads.end()
    reads.end()
    assert [type(error) for error in told] == [NotRunningError]

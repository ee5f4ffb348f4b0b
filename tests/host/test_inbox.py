"""Events wait in order, with the records that arrived with them.

A message leaves when its writes are durable: not earlier, not twice, and only the newest for a peer.

Each caller of an upgrade or a transfer gets one outcome.

Each caller that wants to read gets one outcome.

Source: the shape is dask's ``worker_state_machine`` (instructions out, events in); etcd ``raft/doc.go`` (write before
you send); openraft ``io_ordering``; KIP-584; Kafka's ``QuorumController.updateFeatures``; Raft dissertation §6.4.
"""

from typing import Any

import pytest

from pykraft.core.events import Persisted, TimerDue
from pykraft.errors import NotLeaderError, NotRunningError, OutcomeUnknownError, UsageError
from pykraft.host.inbox import Arrival, HeldMessages, Inbox, MessageKey, PendingReads, PendingRequests
from pykraft.types import NO_IO, Io, Offset
from tests.host.fakes import batch


@pytest.mark.conformance(115)
def test_events_come_out_in_the_order_in_which_they_happened() -> None:
    inbox = Inbox()
    inbox.put(TimerDue())
    inbox.put(Persisted(io=Io(1)), [batch(0)])
    assert inbox.take() == Arrival(TimerDue(), ())
    assert inbox.take() == Arrival(Persisted(io=Io(1)), [batch(0)])
    assert inbox.take() is None


@pytest.mark.conformance(115)
def test_a_closed_inbox_forgets_what_waits_and_what_comes() -> None:
    inbox = Inbox()
    inbox.put(TimerDue())
    assert not inbox.is_closed
    inbox.close()
    inbox.put(TimerDue())
    assert inbox.is_closed
    assert inbox.take() is None


def peer(peer_id: int) -> MessageKey:
    return ("request to peer", peer_id)


def test_a_message_that_relies_on_nothing_leaves_at_once() -> None:
    left: list[str] = []
    HeldMessages().send_when_durable(peer(1), NO_IO, lambda: left.append("a"))
    assert left == ["a"]


def test_messages_wait_for_their_own_job_and_leave_in_the_order_in_which_they_came() -> None:
    held, left = HeldMessages(), list[str]()
    held.send_when_durable(peer(1), Io(5), lambda: left.append("five"))
    held.send_when_durable(peer(2), Io(3), lambda: left.append("three"))
    held.send_when_durable(peer(3), Io(4), lambda: left.append("four"))
    held.persisted(Io(2))
    assert left == []
    held.persisted(Io(4))
    assert left == ["three", "four"]
    held.persisted(Io(9))
    assert left == ["three", "four", "five"]
    assert len(held) == 0


def test_what_is_durable_already_does_not_wait() -> None:
    held, left = HeldMessages(), list[str]()
    held.persisted(Io(4))
    held.send_when_durable(peer(1), Io(4), lambda: left.append("a"))
    assert left == ["a"]


def test_a_newer_request_to_a_peer_replaces_one_that_has_not_left() -> None:
    held, left = HeldMessages(), list[str]()
    held.send_when_durable(peer(1), Io(1), lambda: left.append("old"))
    held.send_when_durable(peer(1), Io(2), lambda: left.append("new"))
    held.persisted(Io(2))
    assert left == ["new"]


def test_a_newer_request_that_need_not_wait_makes_the_older_one_void_too() -> None:
    held, left = HeldMessages(), list[str]()
    held.send_when_durable(peer(1), Io(1), lambda: left.append("old"))
    held.send_when_durable(peer(1), NO_IO, lambda: left.append("new"))
    held.persisted(Io(1))
    assert left == ["new"]


@pytest.mark.conformance("H28")
def test_requests_and_replies_of_one_number_are_different_messages() -> None:
    held, left = HeldMessages(), list[str]()
    held.send_when_durable(("request to peer", 7), Io(1), lambda: left.append("request"))
    held.send_when_durable(("reply to request", 7), Io(1), lambda: left.append("reply"))
    held.persisted(Io(1))
    assert left == ["request", "reply"]


def test_a_dropped_message_never_leaves() -> None:
    held, left = HeldMessages(), list[str]()
    held.send_when_durable(peer(1), Io(1), lambda: left.append("a"))
    held.drop(peer(1))
    held.drop(peer(2))
    held.persisted(Io(1))
    assert left == []


def test_durability_never_goes_back() -> None:
    held = HeldMessages()
    held.persisted(Io(3))
    with pytest.raises(AssertionError):
        held.persisted(Io(2))


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

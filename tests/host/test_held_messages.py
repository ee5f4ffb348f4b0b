"""A message leaves when its writes are durable: not earlier, not twice, and only the newest for a peer.

Source: etcd ``raft/doc.go`` (write before you send); openraft ``io_ordering``.
"""

from __future__ import annotations

import pytest

from pykraft.host.held_messages import HeldMessages, MessageKey
from pykraft.types import NO_IO, Io


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

"""One request in flight to each peer, back-off after failures, and which bootstrap server is next."""

from random import Random

import pytest

from pykraft.core.connections import Connections
from pykraft.core.effects import Peer
from pykraft.types import Endpoint

PEERS = tuple(Peer(id=-2 - at, endpoint=Endpoint(f"b{at}", 9_000)) for at in range(3))


def connections(*, retry_backoff_ms: int = 20) -> Connections:
    return Connections(request_timeout_ms=100, retry_backoff_ms=retry_backoff_ms)


@pytest.mark.conformance(97, "H30")
def test_only_the_answer_to_the_newest_request_counts_and_once() -> None:
    peers = connections()
    first = peers.sent(2, 0)
    assert not peers.is_ready(2)
    assert peers.is_ready(3)
    assert not peers.received(3, first)
    assert not peers.received(2, first + 1)
    assert peers.received(2, first)
    assert not peers.received(2, first)
    assert peers.sent(2, 0) != first


def test_a_request_is_not_sent_twice() -> None:
    peers = connections()
    peers.sent(2, 0)
    with pytest.raises(AssertionError):
        peers.sent(2, 0)


@pytest.mark.conformance(97, "H84")
def test_a_pause_follows_a_failure() -> None:
    peers = connections()
    peers.back_off(2, 0)
    peers.expire(19)
    assert peers.is_backing_off(2)
    assert not peers.is_ready(2)
    assert peers.next_deadline_ms() == 20
    peers.expire(20)
    assert peers.is_ready(2)
    assert peers.next_deadline_ms() is None


def test_a_pause_is_never_empty() -> None:
    peers = connections(retry_backoff_ms=0)
    peers.back_off(2, 0)
    assert peers.is_backing_off(2)
    peers.expire(1)
    assert peers.is_ready(2)


@pytest.mark.conformance(25, 97, "H83")
def test_a_request_out_of_time_has_failed_and_its_answer_comes_too_late() -> None:
    peers = connections()
    late = peers.sent(2, 0)
    peers.expire(99)
    assert peers.has_in_flight
    assert peers.next_deadline_ms() == 100
    peers.expire(100)
    assert not peers.has_in_flight
    assert peers.is_backing_off(2)
    assert not peers.received(2, late)


@pytest.mark.conformance(97)
def test_a_reset_forgets_requests_and_pauses_but_gives_no_number_twice() -> None:
    peers = connections()
    late = peers.sent(2, 0)
    peers.back_off(3, 0)
    peers.reset()
    assert peers.is_ready(2)
    assert peers.is_ready(3)
    assert not peers.received(2, late)
    assert peers.sent(2, 0) > late


@pytest.mark.conformance(38, 97)
def test_bootstrap_servers_are_asked_one_at_a_time_in_a_circle_from_a_random_start() -> None:
    peers = connections()
    assert peers.choose((), Random(1)) is None
    first = {peers.choose(PEERS, Random(seed)) for seed in range(20)}
    assert first == set(PEERS)
    peers.back_off(PEERS[1].id, 0)
    assert {peers.choose(PEERS, Random(seed)) for seed in range(20)} == {PEERS[0], PEERS[2]}
    for peer in PEERS:
        peers.back_off(peer.id, 0)
    assert peers.choose(PEERS, Random(1)) is None
    peers.expire(20)
    peers.sent(9, 20)
    assert peers.choose(PEERS, Random(1)) is None


def test_an_answer_that_arrives_fast_enough_has_another_request_timeout() -> None:
    peers = Connections(request_timeout_ms=100, retry_backoff_ms=20, floor_bytes=10)
    asked = peers.sent(2, 0)
    assert not peers.progressed(2, asked + 1, 50, 100, 90)
    assert not peers.progressed(3, asked, 50, 100, 90)
    assert not peers.progressed(2, asked, 9, 100, 90)
    assert peers.next_deadline_ms() == 100
    assert peers.progressed(2, asked, 10, 100, 90)
    assert peers.next_deadline_ms() == 190
    peers.expire(190)
    assert peers.is_backing_off(2)

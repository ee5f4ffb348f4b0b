"""Requests to peers: dialed on demand, only the newest one counts, and each is answered or failed exactly once.

Source: Kafka's ``KafkaNetworkChannel`` and ``InterBrokerSendThread``; KIP-595 §Request timeout.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pykraft.core.effects import Peer, Send
from pykraft.core.events import Event, ResponseReceived, SendFailed
from pykraft.core.messages import FetchResponse, Request, VoteResponse
from pykraft.errors import ErrorCode
from pykraft.host import peers as module
from pykraft.host.held_messages import HeldMessages
from pykraft.host.inbox import Arrival, Inbox
from pykraft.host.peers import Peers
from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import decode_request_header
from pykraft.protocol.messages import ApiKey
from pykraft.types import NO_IO, Endpoint, Io, NodeId, Offset
from tests.host.fakes import CONTEXT, FakePorts, at, batch, endpoint, joined
from tests.rpc.test_connection import ALL, fetch, fetch_answer, versions_answer, vote, vote_answer

TIMEOUT_MS = 2_000


class Desk:
    """Peers on a world of lists."""

    def __init__(self) -> None:
        self.ports = FakePorts()
        self.inbox = Inbox()
        self.held = HeldMessages()
        self.now_ms = 0
        self.ours: list[NodeId] = []
        self.peers = Peers(
            self.ports,
            self.inbox,
            self.held,
            context=CONTEXT,
            client_id="raft-client-1",
            request_timeout_ms=TIMEOUT_MS,
            find_batch=self._find_batch,
            on_pykraft=self.ours.append,
        )
        self.batch_start: Offset | None = None
        self.batch_starts: list[Offset] = []
        self._next_id = 0

    def _find_batch(self, offset: Offset, then: Callable[[Offset | None], None]) -> None:
        self.batch_starts.append(offset)
        then(self.batch_start)

    def send(
        self, message: Request | None = None, *, peer_id: int = 2, after: Io = NO_IO, to: Endpoint | None = None
    ) -> int:
        """Send a request, a vote if nothing is said; its correlation id of the core."""
        self._next_id += 1
        peer = Peer(id=peer_id, endpoint=to or endpoint(peer_id))
        send = Send(after=after, peer=peer, correlation_id=self._next_id, message=message or vote())
        self.peers.send(send, at(self.now_ms))
        return self._next_id

    def connect(self, versions: dict[ApiKey, tuple[int, int]] = ALL) -> ConnectionId:
        """Let the newest dial succeed and negotiate."""
        connection = self.ports.dialed[-1][0]
        self.peers.on_connected(connection)
        self.peers.on_frame(connection, versions_answer(versions))
        return connection

    @property
    def asked(self) -> list[tuple[ConnectionId, ApiKey, int]]:
        """Connection, API and wire id of every request so far, the negotiations left out."""
        headers = [(connection, decode_request_header(frame)) for connection, frame in self.ports.sent]
        asked = [(connection, ApiKey(each.api_key), each.correlation_id) for connection, each in headers]
        return [each for each in asked if each[1] != ApiKey.API_VERSIONS]

    def arrivals(self) -> list[Arrival]:
        return list(iter(self.inbox.take, None))

    def events(self) -> list[Event]:
        return [arrival.event for arrival in self.arrivals()]


def failed(correlation_id: int, error: int = ErrorCode.BROKER_NOT_AVAILABLE, peer_id: int = 2) -> SendFailed:
    return SendFailed(peer_id=peer_id, correlation_id=correlation_id, error=error)


@pytest.mark.conformance(96, "H28")
def test_a_request_dials_negotiates_and_is_answered() -> None:
    desk = Desk()
    correlation_id = desk.send()
    assert [where for _, where in desk.ports.dialed] == [endpoint(2)]
    assert desk.ports.sent == []
    connection = desk.connect()
    assert desk.asked == [(connection, ApiKey.VOTE, 1)]
    desk.peers.on_frame(connection, vote_answer(wire_id=1))
    (event,) = desk.events()
    assert isinstance(event, ResponseReceived)
    assert (event.peer_id, event.correlation_id) == (2, correlation_id)
    assert isinstance(event.message, VoteResponse)


@pytest.mark.conformance(96)
def test_the_next_request_takes_the_same_connection() -> None:
    desk = Desk()
    desk.send()
    connection = desk.connect()
    desk.peers.on_frame(connection, vote_answer(wire_id=1))
    desk.send()
    assert desk.asked == [(connection, ApiKey.VOTE, 1), (connection, ApiKey.VOTE, 2)]
    assert len(desk.ports.dialed) == 1


@pytest.mark.conformance(96)
def test_a_request_waits_for_the_disk_while_the_connection_is_made() -> None:
    desk = Desk()
    desk.send(after=Io(4))
    connection = desk.connect()
    assert desk.asked == []
    desk.held.persisted(Io(3))
    assert desk.asked == []
    desk.held.persisted(Io(4))
    assert desk.asked == [(connection, ApiKey.VOTE, 1)]


@pytest.mark.conformance(96)
def test_a_durable_request_waits_for_the_connection() -> None:
    desk = Desk()
    desk.send(after=Io(4))
    desk.held.persisted(Io(4))
    assert desk.asked == []
    connection = desk.connect()
    assert desk.asked == [(connection, ApiKey.VOTE, 1)]


@pytest.mark.conformance("H83")
def test_a_new_request_closes_the_connection_of_an_unanswered_one() -> None:
    desk = Desk()
    desk.send()
    old = desk.connect()
    newer = desk.send()
    assert desk.ports.closed == [old]
    assert not desk.peers.owns(old)
    connection = desk.connect()
    assert connection != old
    assert desk.asked == [(old, ApiKey.VOTE, 1), (connection, ApiKey.VOTE, 1)]
    desk.peers.on_frame(connection, vote_answer(wire_id=1))
    (event,) = desk.events()
    assert isinstance(event, ResponseReceived)
    assert event.correlation_id == newer


def test_the_connection_of_a_void_request_is_closed_even_while_the_new_one_waits_for_the_disk() -> None:
    desk = Desk()
    desk.send()
    old = desk.connect()
    desk.send(after=Io(9))
    assert desk.ports.closed == [old]
    connection = desk.connect()
    desk.held.persisted(Io(9))
    assert desk.asked == [(old, ApiKey.VOTE, 1), (connection, ApiKey.VOTE, 1)]


def test_a_new_request_replaces_one_that_has_not_left_and_uses_the_same_dial() -> None:
    desk = Desk()
    desk.send(after=Io(4))
    newer = desk.send(after=Io(5))
    connection = desk.connect()
    desk.held.persisted(Io(4))
    assert desk.asked == []
    desk.held.persisted(Io(5))
    assert desk.asked == [(connection, ApiKey.VOTE, 1)]
    desk.peers.on_closed(connection)
    assert desk.events() == [failed(newer)]
    assert desk.ports.closed == []


@pytest.mark.conformance("H29", "H83")
@pytest.mark.parametrize("is_connected", [False, True])
def test_connecting_or_negotiating_beyond_the_request_timeout_is_given_up_by_the_next_request(
    *, is_connected: bool
) -> None:
    desk = Desk()
    desk.send()
    if is_connected:
        desk.peers.on_connected(desk.ports.dialed[0][0])
    desk.now_ms = TIMEOUT_MS - 1
    desk.send()
    assert desk.ports.closed == []
    desk.now_ms = TIMEOUT_MS
    desk.send()
    assert desk.ports.closed == [desk.ports.dialed[0][0]]
    assert len(desk.ports.dialed) == 2


def test_a_peer_that_moved_is_dialed_where_it_is_now() -> None:
    desk = Desk()
    desk.send()
    connection = desk.connect()
    desk.peers.on_frame(connection, vote_answer(wire_id=1))
    desk.send(to=Endpoint("elsewhere", 1))
    assert desk.ports.closed == [connection]
    assert desk.ports.dialed[-1][1] == Endpoint("elsewhere", 1)


@pytest.mark.conformance(96, "H29")
def test_a_failed_dial_fails_the_request_once() -> None:
    desk = Desk()
    correlation_id = desk.send()
    desk.peers.on_closed(desk.ports.dialed[0][0])
    desk.peers.on_closed(desk.ports.dialed[0][0])
    assert desk.events() == [failed(correlation_id)]


def test_a_request_that_failed_while_it_waited_for_the_disk_never_leaves() -> None:
    desk = Desk()
    correlation_id = desk.send(after=Io(4))
    desk.peers.on_closed(desk.ports.dialed[0][0])
    assert desk.events() == [failed(correlation_id)]
    assert len(desk.held) == 0
    desk.held.persisted(Io(4))
    assert desk.events() == []


@pytest.mark.conformance(96, "H29")
def test_a_connection_that_breaks_fails_what_was_asked_and_the_next_request_dials_anew() -> None:
    desk = Desk()
    correlation_id = desk.send()
    connection = desk.connect()
    desk.peers.on_closed(connection)
    assert desk.events() == [failed(correlation_id)]
    desk.send()
    assert len(desk.ports.dialed) == 2


def test_a_connection_that_is_not_known_is_no_news() -> None:
    desk = Desk()
    desk.peers.on_connected(ConnectionId(77))
    desk.peers.on_closed(ConnectionId(77))
    assert desk.ports.sent == []
    assert desk.events() == []


def test_an_idle_connection_that_breaks_is_no_news() -> None:
    desk = Desk()
    desk.send()
    connection = desk.connect()
    desk.peers.on_frame(connection, vote_answer(wire_id=1))
    desk.events()
    desk.peers.on_closed(connection)
    assert desk.events() == []
    assert desk.ports.reports == []


@pytest.mark.conformance(96)
def test_a_pre_vote_to_an_old_peer_fails_with_its_own_error_and_the_connection_stays() -> None:
    desk = Desk()
    correlation_id = desk.send(vote(pre_vote=True))
    connection = desk.connect({ApiKey.VOTE: (0, 1)})
    assert desk.events() == [failed(correlation_id, ErrorCode.UNSUPPORTED_VERSION)]
    desk.send()
    assert desk.asked == [(connection, ApiKey.VOTE, 1)]


@pytest.mark.conformance(96)
@pytest.mark.parametrize("answer", [b"", b"garbage", vote_answer(wire_id=5), vote_answer(wire_id=1)[:-3]])
def test_an_answer_that_is_none_closes_the_connection_with_one_line(answer: bytes) -> None:
    desk = Desk()
    correlation_id = desk.send()
    connection = desk.connect()
    desk.peers.on_frame(connection, answer)
    assert desk.ports.closed == [connection]
    assert desk.events() == [failed(correlation_id)]
    assert len(desk.ports.reports) == 1
    assert "peer 2 at node2:9002" in desk.ports.reports[0]


def test_a_peer_that_speaks_unasked_is_closed() -> None:
    desk = Desk()
    desk.send()
    connection = desk.connect()
    desk.peers.on_frame(connection, vote_answer(wire_id=1))
    desk.events()
    desk.peers.on_frame(connection, vote_answer(wire_id=2))
    assert desk.ports.closed == [connection]
    assert desk.events() == []


def test_the_core_can_close_a_peer() -> None:
    desk = Desk()
    desk.send()
    connection = desk.connect()
    desk.peers.on_frame(connection, vote_answer(wire_id=1))
    desk.events()
    desk.peers.close(2, "two leaders in epoch 3")
    desk.peers.close(9, "nobody")
    assert desk.ports.closed == [connection]
    assert desk.events() == []
    desk.peers.close(2, "it is closed already")
    assert desk.ports.closed == [connection]
    assert desk.ports.reports[0] == "closing the connection to peer 2 at node2:9002: two leaders in epoch 3"


def test_fetched_batches_reach_the_core_as_headers_and_go_beside_it_as_slices() -> None:
    desk = Desk()
    desk.send(fetch())
    connection = desk.connect()
    batches = [batch(0), batch(1)]
    frame = fetch_answer(joined(batches), wire_id=1)
    desk.peers.on_frame(connection, frame)
    (arrival,) = desk.arrivals()
    assert isinstance(arrival.event, ResponseReceived)
    message = arrival.event.message
    assert isinstance(message, FetchResponse)
    assert [(one.base_offset, one.end_offset) for one in message.batches] == [(0, 1), (1, 2)]
    assert message.invalid is None
    assert [(header, bytes(data)) for header, data in arrival.fetched] == batches


def test_what_follows_a_bad_batch_is_told_and_not_passed_on() -> None:
    desk = Desk()
    desk.send(fetch())
    connection = desk.connect()
    raw = bytearray(joined([batch(0), batch(1), batch(2)]))
    raw[len(batch(0)[1]) + 70] ^= 1
    desk.peers.on_frame(connection, fetch_answer(raw, wire_id=1))
    (arrival,) = desk.arrivals()
    assert isinstance(arrival.event, ResponseReceived)
    assert isinstance(arrival.event.message, FetchResponse)
    assert len(arrival.fetched) == len(arrival.event.message.batches) == 1
    assert arrival.event.message.invalid is not None
    assert "CRC" in arrival.event.message.invalid


def test_peers_beyond_the_bound_make_room_for_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PEERS_MAX", 2)
    desk = Desk()
    first = desk.send(peer_id=2)
    desk.send(peer_id=3)
    desk.send(peer_id=4)
    assert desk.events() == [failed(first)]
    assert desk.ports.closed == [desk.ports.dialed[0][0]]


@pytest.mark.parametrize("waits_for_disk", [True, False])
def test_a_fetch_that_has_not_left_is_void_once_another_peer_is_asked(waits_for_disk: bool) -> None:
    desk = Desk()
    first = desk.send(fetch(), peer_id=2, after=Io(1) if waits_for_disk else NO_IO)
    if waits_for_disk:
        desk.connect()
    desk.send(fetch(), peer_id=3, after=Io(1))
    assert desk.events() == [failed(first, ErrorCode.REQUEST_TIMED_OUT)]
    connection = desk.connect()
    desk.held.persisted(Io(1))
    assert [(where, key) for where, key, _ in desk.asked] == [(connection, ApiKey.FETCH)]


def test_a_fetch_without_an_id_and_another_fetch_leave_each_other_alone() -> None:
    desk = Desk()
    question = replace(fetch(), replica=None)
    desk.send(question, peer_id=2)
    desk.send(fetch(), peer_id=3)
    desk.send(question, peer_id=4)
    assert desk.events() == []


def test_a_fetch_that_has_left_keeps_its_connection_when_another_peer_is_asked() -> None:
    desk = Desk()
    desk.send(fetch(), peer_id=2)
    desk.connect()
    desk.send(fetch(), peer_id=3)
    assert desk.events() == []
    assert not desk.ports.closed


@pytest.mark.parametrize("batch_start", [5, None])
def test_an_answer_that_diverges_says_where_the_own_batch_begins_or_is_none(batch_start: int | None) -> None:
    desk = Desk()
    desk.batch_start = None if batch_start is None else Offset(batch_start)
    correlation_id = desk.send(fetch())
    connection = desk.connect()
    desk.peers.on_frame(connection, fetch_answer(b"", wire_id=1, diverging_offset=9))
    (event,) = desk.events()
    assert desk.batch_starts == [9]
    if batch_start is None:
        assert event == failed(correlation_id)
    else:
        assert isinstance(event, ResponseReceived)
        assert isinstance(event.message, FetchResponse)
        assert (event.correlation_id, event.message.batch_start) == (correlation_id, 5)
    assert desk.ports.wake_ms == 0

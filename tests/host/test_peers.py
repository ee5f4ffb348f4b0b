"""Requests to peers: dialed on demand, only the newest one counts, and each is answered or failed exactly once.

Each answer that is of no use has its reason, and each useful one none.

Peers whose process has ended: a refused connection, and an idle one that ends during a shutdown.

Peers remember why a peer gave no useful answer, and since when, until it gives one.

Which peers turn out to be pykraft, by the APIs that they list.

Source: Kafka's ``KafkaNetworkChannel`` and ``InterBrokerSendThread``; KIP-595 §Request timeout; ADR 051; ours (ADR
045); ADR 079.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pykraft.core import messages
from pykraft.core.effects import Peer, Send
from pykraft.core.events import ConnectionLost, Event, ResponseReceived, SendFailed
from pykraft.errors import ErrorCode
from pykraft.host import peers as module
from pykraft.host.authorization import Guard
from pykraft.host.inbox import Arrival, HeldMessages, Inbox
from pykraft.host.peers import INCONSISTENT_VOTER_SET, PROBLEM_KEPT_MS, Peers, problem_in, silence
from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import decode_request_header
from pykraft.protocol.messages import ApiKey
from pykraft.security.principal import KnownEnd, Principal
from pykraft.types import NO_IO, Endpoint, Epoch, Io, NodeId, Offset
from tests.host.fakes import CONTEXT, FakePorts, at, batch, config, endpoint, joined
from tests.rpc.test_connection import ALL, fetch, fetch_answer, versions_answer, vote, vote_answer

TIMEOUT_MS = 2_000


class Desk:
    """Peers on a world of lists."""

    def __init__(self, guard: Guard | None = None) -> None:
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
            guard=guard,
        )
        self.batch_start: Offset | None = None
        self.batch_starts: list[Offset] = []
        self._next_id = 0

    def _find_batch(self, offset: Offset, then: Callable[[Offset | None], None]) -> None:
        self.batch_starts.append(offset)
        then(self.batch_start)

    def send(
        self,
        message: messages.Request | None = None,
        *,
        peer_id: int = 2,
        after: Io = NO_IO,
        to: Endpoint | None = None,
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

    @classmethod
    def asking(cls, message: messages.Request | None = None) -> tuple[Desk, ConnectionId, int]:
        """One that has sent its first request, the connection, and the correlation id of the core."""
        desk = cls()
        correlation_id = desk.send(message)
        return desk, desk.connect(), correlation_id

    @classmethod
    def answered(cls) -> tuple[Desk, ConnectionId]:
        """One whose first request was answered, and the connection."""
        desk, connection, _ = cls.asking()
        desk.peers.on_frame(connection, vote_answer(wire_id=1))
        desk.events()
        return desk, connection

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


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.mark.conformance(96, "H28")
def test_a_request_dials_negotiates_and_is_answered(desk: Desk) -> None:
    correlation_id = desk.send()
    assert [where for _, where in desk.ports.dialed] == [endpoint(2)]
    assert desk.ports.sent == []
    connection = desk.connect()
    assert desk.asked == [(connection, ApiKey.VOTE, 1)]
    desk.peers.on_frame(connection, vote_answer(wire_id=1))
    (event,) = desk.events()
    assert isinstance(event, ResponseReceived)
    assert (event.peer_id, event.correlation_id) == (2, correlation_id)
    assert isinstance(event.message, messages.VoteResponse)


@pytest.mark.conformance(96)
def test_the_next_request_takes_the_same_connection() -> None:
    desk, connection = Desk.answered()
    desk.send()
    assert desk.asked == [(connection, ApiKey.VOTE, 1), (connection, ApiKey.VOTE, 2)]
    assert len(desk.ports.dialed) == 1


@pytest.mark.conformance(96)
def test_a_request_waits_for_the_disk_while_the_connection_is_made(desk: Desk) -> None:
    desk.send(after=Io(4))
    connection = desk.connect()
    assert desk.asked == []
    desk.held.persisted(Io(3))
    assert desk.asked == []
    desk.held.persisted(Io(4))
    assert desk.asked == [(connection, ApiKey.VOTE, 1)]


@pytest.mark.conformance(96)
def test_a_durable_request_waits_for_the_connection(desk: Desk) -> None:
    desk.send(after=Io(4))
    desk.held.persisted(Io(4))
    assert desk.asked == []
    connection = desk.connect()
    assert desk.asked == [(connection, ApiKey.VOTE, 1)]


@pytest.mark.conformance("H83")
def test_a_new_request_closes_the_connection_of_an_unanswered_one(desk: Desk) -> None:
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


def test_the_connection_of_a_void_request_is_closed_even_while_the_new_one_waits_for_the_disk(desk: Desk) -> None:
    desk.send()
    old = desk.connect()
    desk.send(after=Io(9))
    assert desk.ports.closed == [old]
    connection = desk.connect()
    desk.held.persisted(Io(9))
    assert desk.asked == [(old, ApiKey.VOTE, 1), (connection, ApiKey.VOTE, 1)]


def test_a_new_request_replaces_one_that_has_not_left_and_uses_the_same_dial(desk: Desk) -> None:
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
    desk: Desk, *, is_connected: bool
) -> None:
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
    desk, connection = Desk.answered()
    desk.send(to=Endpoint("elsewhere", 1))
    assert desk.ports.closed == [connection]
    assert desk.ports.dialed[-1][1] == Endpoint("elsewhere", 1)


@pytest.mark.conformance(96, "H29")
def test_a_failed_dial_fails_the_request_once(desk: Desk) -> None:
    correlation_id = desk.send()
    desk.peers.on_closed(desk.ports.dialed[0][0])
    desk.peers.on_closed(desk.ports.dialed[0][0])
    assert desk.events() == [failed(correlation_id)]


def test_a_request_that_failed_while_it_waited_for_the_disk_never_leaves(desk: Desk) -> None:
    correlation_id = desk.send(after=Io(4))
    desk.peers.on_closed(desk.ports.dialed[0][0])
    assert desk.events() == [failed(correlation_id)]
    assert len(desk.held) == 0
    desk.held.persisted(Io(4))
    assert desk.events() == []


@pytest.mark.conformance(96, "H29")
def test_a_connection_that_breaks_fails_what_was_asked_and_the_next_request_dials_anew() -> None:
    desk, connection, correlation_id = Desk.asking()
    desk.peers.on_closed(connection)
    assert desk.events() == [failed(correlation_id)]
    desk.send()
    assert len(desk.ports.dialed) == 2


def test_a_connection_that_is_not_known_is_no_news(desk: Desk) -> None:
    desk.peers.on_connected(ConnectionId(77))
    desk.peers.on_closed(ConnectionId(77))
    assert desk.ports.sent == []
    assert desk.events() == []


def test_an_idle_connection_that_breaks_is_no_news() -> None:
    desk, connection = Desk.answered()
    desk.peers.on_closed(connection)
    assert desk.events() == []
    assert desk.ports.reports == []


@pytest.mark.conformance(96)
def test_a_pre_vote_to_an_old_peer_fails_with_its_own_error_and_the_connection_stays(desk: Desk) -> None:
    correlation_id = desk.send(vote(pre_vote=True))
    connection = desk.connect({ApiKey.VOTE: (0, 1)})
    assert desk.events() == [failed(correlation_id, ErrorCode.UNSUPPORTED_VERSION)]
    desk.send()
    assert desk.asked == [(connection, ApiKey.VOTE, 1)]


@pytest.mark.conformance(96)
@pytest.mark.parametrize("answer", [b"", b"garbage", vote_answer(wire_id=5), vote_answer(wire_id=1)[:-3]])
def test_an_answer_that_is_none_closes_the_connection_with_one_line(answer: bytes) -> None:
    desk, connection, correlation_id = Desk.asking()
    desk.peers.on_frame(connection, answer)
    assert desk.ports.closed == [connection]
    assert desk.events() == [failed(correlation_id)]
    assert len(desk.ports.reports) == 1
    assert "peer 2 at node2:9002" in desk.ports.reports[0]


def test_a_peer_that_speaks_unasked_is_closed() -> None:
    desk, connection = Desk.answered()
    desk.peers.on_frame(connection, vote_answer(wire_id=2))
    assert desk.ports.closed == [connection]
    assert desk.events() == []


def test_the_core_can_close_a_peer() -> None:
    desk, connection = Desk.answered()
    desk.peers.close(2, "two leaders in epoch 3")
    desk.peers.close(9, "nobody")
    assert desk.ports.closed == [connection]
    assert desk.events() == []
    desk.peers.close(2, "it is closed already")
    assert desk.ports.closed == [connection]
    assert desk.ports.reports[0] == "closing the connection to peer 2 at node2:9002: two leaders in epoch 3"


def test_fetched_batches_reach_the_core_as_headers_and_go_beside_it_as_slices() -> None:
    desk, connection, _ = Desk.asking(fetch())
    batches = [batch(0), batch(1)]
    frame = fetch_answer(joined(batches), wire_id=1)
    desk.peers.on_frame(connection, frame)
    (arrival,) = desk.arrivals()
    assert isinstance(arrival.event, ResponseReceived)
    message = arrival.event.message
    assert isinstance(message, messages.FetchResponse)
    assert [(one.base_offset, one.end_offset) for one in message.batches] == [(0, 1), (1, 2)]
    assert message.invalid is None
    assert [(header, bytes(data)) for header, data in arrival.fetched] == batches


def test_what_follows_a_bad_batch_is_told_and_not_passed_on() -> None:
    desk, connection, _ = Desk.asking(fetch())
    raw = bytearray(joined([batch(0), batch(1), batch(2)]))
    raw[len(batch(0)[1]) + 70] ^= 1
    desk.peers.on_frame(connection, fetch_answer(raw, wire_id=1))
    (arrival,) = desk.arrivals()
    assert isinstance(arrival.event, ResponseReceived)
    assert isinstance(arrival.event.message, messages.FetchResponse)
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
def test_a_fetch_that_has_not_left_is_void_once_another_peer_is_asked(desk: Desk, waits_for_disk: bool) -> None:
    first = desk.send(fetch(), peer_id=2, after=Io(1) if waits_for_disk else NO_IO)
    if waits_for_disk:
        desk.connect()
    desk.send(fetch(), peer_id=3, after=Io(1))
    assert desk.events() == [failed(first, ErrorCode.REQUEST_TIMED_OUT)]
    connection = desk.connect()
    desk.held.persisted(Io(1))
    assert [(where, key) for where, key, _ in desk.asked] == [(connection, ApiKey.FETCH)]


def test_a_fetch_without_an_id_and_another_fetch_leave_each_other_alone(desk: Desk) -> None:
    question = replace(fetch(), replica=None)
    desk.send(question, peer_id=2)
    desk.send(fetch(), peer_id=3)
    desk.send(question, peer_id=4)
    assert desk.events() == []


def test_a_fetch_that_has_left_keeps_its_connection_when_another_peer_is_asked(desk: Desk) -> None:
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
        assert isinstance(event.message, messages.FetchResponse)
        assert (event.correlation_id, event.message.batch_start) == (correlation_id, 5)
    assert desk.ports.wake_ms == 0


def voted(*, granted: bool = False, error: int = 0, leader_id: int | None = None) -> messages.VoteResponse:
    leader = None if leader_id is None else NodeId(leader_id)
    return messages.VoteResponse(error=error, epoch=Epoch(7), leader_id=leader, vote_granted=granted)


def fetched(error: int, leader_id: int | None = None) -> messages.FetchResponse:
    return messages.FetchResponse(
        error=error,
        epoch=Epoch(7),
        leader_id=None if leader_id is None else NodeId(leader_id),
        high_watermark=None,
        log_start_offset=Offset(0),
    )


PROBLEMS: dict[str, tuple[messages.Response, str | None]] = {
    "a vote": (voted(granted=True), None),
    "no vote": (voted(), "it does not vote for this node in epoch 7: its log may be longer, or its vote is given"),
    "no vote because of a leader": (
        voted(leader_id=3),
        "it does not vote for this node, since it hears leader 3 in epoch 7",
    ),
    "another cluster": (
        messages.TopLevelError(error=ErrorCode.INCONSISTENT_CLUSTER_ID),
        f"it belongs to another cluster than this node, whose cluster.id is {CONTEXT.cluster_id}",
    ),
    "another topic": (
        messages.TopLevelError(error=ErrorCode.INVALID_REQUEST),
        f"it may not have topic {CONTEXT.topic_name}, which this node keeps: see pykraft.topic",
    ),
    "another node": (
        voted(error=ErrorCode.INVALID_VOTER_KEY),
        "it is not the voter that this node expects: its node.id or directory.id is another one",
    ),
    "other voters": (
        voted(error=INCONSISTENT_VOTER_SET),
        "this node is not among its voters (INCONSISTENT_VOTER_SET): compare controller.quorum.voters",
    ),
    "not allowed": (voted(error=ErrorCode.CLUSTER_AUTHORIZATION_FAILED), "it answers CLUSTER_AUTHORIZATION_FAILED"),
    "a code that nobody knows": (voted(error=999), "it answers error 999"),
    "records": (fetched(0), None),
    "no leader": (fetched(ErrorCode.NOT_LEADER_OR_FOLLOWER), "it knows no leader in epoch 7"),
    "another leader": (fetched(ErrorCode.FENCED_LEADER_EPOCH, leader_id=3), "it names node 3 as the leader in epoch 7"),
    "an acknowledged leader": (messages.BeginQuorumEpochResponse(error=0, epoch=Epoch(7), leader_id=NodeId(1)), None),
}


@pytest.mark.parametrize(("message", "problem"), PROBLEMS.values(), ids=PROBLEMS)
def test_problems(message: messages.Response, problem: str | None) -> None:
    assert problem_in(message, CONTEXT) == problem


def test_silence_names_the_request() -> None:
    assert silence(vote()) == "no answer to Vote"


def test_the_core_learns_that_nobody_listens_where_a_peer_should_be(desk: Desk) -> None:
    correlation_id = desk.send()
    desk.peers.on_closed(desk.ports.dialed[0][0], is_refused=True)
    assert desk.events() == [replace(failed(correlation_id), is_refused=True)]


@pytest.mark.parametrize("is_shutting_down", [False, True])
def test_an_idle_connection_that_ends_is_told_during_a_shutdown_only(is_shutting_down: bool) -> None:
    desk, connection = Desk.answered()
    if is_shutting_down:
        desk.peers.begin_shutdown()
    desk.peers.on_closed(connection)
    assert desk.events() == ([ConnectionLost(peer_id=2)] if is_shutting_down else [])


def problems(peers: Peers) -> list[tuple[int, str, int]]:
    return [(each.peer.id, each.text, each.since_ms) for each in peers.problems()]


def newest(desk: Desk) -> ConnectionId:
    return desk.ports.dialed[-1][0]


def test_a_failed_dial_is_told_since_the_first_request(desk: Desk) -> None:
    assert not problems(desk.peers)
    for now_ms in (100, 200):
        desk.now_ms = now_ms
        desk.send()
        assert problems(desk.peers) == [(2, "no answer yet" if now_ms == 100 else "connection refused", 100)]
        desk.peers.on_closed(newest(desk), is_refused=True, reason="connection refused")
    assert problems(desk.peers) == [(2, "connection refused", 100)]


def test_a_problem_from_long_ago_says_nothing_of_now(desk: Desk) -> None:
    desk.send()
    desk.peers.on_closed(newest(desk), reason="no route to host")
    desk.now_ms = 2 * PROBLEM_KEPT_MS
    desk.send()
    assert problems(desk.peers) == [(2, "no answer yet", 2 * PROBLEM_KEPT_MS)]


def test_a_useful_answer_ends_it(desk: Desk) -> None:
    desk.send()
    desk.peers.on_closed(newest(desk), reason="no route to host")
    desk.send()
    desk.connect()
    assert problems(desk.peers) == [(2, "no route to host", 0)]
    desk.peers.on_frame(newest(desk), vote_answer(wire_id=1))
    assert not problems(desk.peers)
    desk.now_ms = 300
    desk.send()
    desk.peers.on_closed(newest(desk))
    assert problems(desk.peers) == [(2, "it closed the connection", 300)]


def test_who_does_not_answer_in_time_is_told_by_how_far_it_came(desk: Desk) -> None:
    desk.send()
    desk.now_ms += TIMEOUT_MS
    desk.send()
    assert problems(desk.peers) == [(2, "no connection yet", 0)]
    desk.peers.on_connected(newest(desk))
    desk.now_ms += TIMEOUT_MS
    desk.send()
    [(_, text, _)] = problems(desk.peers)
    assert text == "it accepts connections, but does not answer ApiVersions: is it a node of a quorum?"
    desk.connect()
    desk.send()
    assert problems(desk.peers) == [(2, "no answer to Vote", 0)]


def test_who_hangs_up_before_it_told_its_versions_may_be_something_else(desk: Desk) -> None:
    desk.send()
    desk.peers.on_connected(newest(desk))
    desk.peers.on_closed(newest(desk))
    [(_, text, _)] = problems(desk.peers)
    assert text == "it closed the connection before it answered ApiVersions: is it a node of a quorum?"


def test_garbage_and_other_versions_are_told(desk: Desk) -> None:
    desk.send()
    desk.peers.on_connected(newest(desk))
    desk.peers.on_frame(newest(desk), b"\0")
    [(_, garbage, _)] = problems(desk.peers)
    desk.send()
    desk.connect({**ALL, ApiKey.VOTE: (50, 60)})
    [(_, versions, _)] = problems(desk.peers)
    assert garbage
    assert versions == "no common version of VOTE: ours are 0-2, the peer's 50-60"


def test_an_answered_request_whose_connection_is_to_be_replaced_is_no_silence(desk: Desk) -> None:
    desk.send()
    desk.connect()
    desk.peers.on_frame(newest(desk), vote_answer(wire_id=1))
    desk.send(to=desk.ports.dialed[0][1])
    assert isinstance(vote(), messages.VoteRequest)
    desk.peers.on_frame(newest(desk), vote_answer(wire_id=2))
    desk.send(to=type(desk.ports.dialed[0][1])("elsewhere", 1))
    assert [text for _, text, _ in problems(desk.peers)] == ["no answer yet"]


@pytest.mark.parametrize(
    ("own_api", "peer_id", "ours"),
    [
        (ApiKey.TRANSFER_LEADERSHIP, 2, [2]),
        (ApiKey.FORWARD, 2, [2]),
        (ApiKey.TRANSFER_LEADERSHIP, -2, []),
        (None, 2, []),
    ],
)
def test_a_peer_that_serves_an_api_of_pykrafts_own_is_pykraft(
    desk: Desk, own_api: ApiKey | None, peer_id: int, ours: list[int]
) -> None:
    desk.send(peer_id=peer_id, to=endpoint(2))
    listed: dict[ApiKey, tuple[int, int]] = {}
    listed |= {key: versions for key, versions in ALL.items() if key not in module.PYKRAFTS_OWN}
    if own_api is not None:
        listed[own_api] = (0, 0)
    desk.connect(listed)
    assert desk.ours == ours


def test_whoever_is_not_the_voter_that_was_dialed_is_asked_nothing() -> None:
    """Its vote would count as that voter's."""
    members = config(1).voters
    desk = Desk(Guard(lambda _: None, CONTEXT, lambda: members))
    correlation_id = desk.send()
    connection = desk.ports.dialed[-1][0]
    desk.peers.on_connected(connection, KnownEnd(Principal("CN=node3", ("node3",))))
    assert desk.ports.sent == []
    assert desk.ports.closed == [connection]
    assert desk.events() == [SendFailed(peer_id=2, correlation_id=correlation_id, error=ErrorCode.BROKER_NOT_AVAILABLE)]
    [problem] = desk.peers.problems()
    assert problem.text.startswith("the certificate of User:CN=node3 is for node3, and voter 2 is at node2; ")
    assert desk.peers.violations == 1
    desk.send()
    desk.peers.on_connected(desk.ports.dialed[-1][0], KnownEnd(Principal("CN=node2", ("node2",))))
    assert len(desk.ports.sent) == 1


def test_a_bootstrap_server_may_be_anybody() -> None:
    members = config(1).voters
    desk = Desk(Guard(lambda _: None, CONTEXT, lambda: members))
    desk.send(peer_id=-2)
    desk.peers.on_connected(desk.ports.dialed[-1][0], KnownEnd(Principal("CN=node3", ("node3",))))
    assert len(desk.ports.sent) == 1

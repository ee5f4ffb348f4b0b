"""Requests to other nodes: one connection per peer, one request at a time on it; and what is wrong with a peer.

This module owns all connections that this node dialed. Invariants: the core hears of the newest request to a peer only,
and once: a response, or a failure. A peer whose last answer was of use has no problem. The rules:

1. Dial on demand, when the core wants to send.
2. A request that is unanswered when the next one comes is void. Its connection is closed and dialed again, so the
   core's request timeout closes a connection that hangs.
3. A Fetch that acknowledges and has not left when another one is wanted for another peer never leaves: the disk or
   the dial took longer than the core waits.
4. If connecting or negotiating takes longer than the request timeout, the next request dials again.
5. A response with a wrong correlation id, an unsolicited one or an unreadable one closes the connection.

Retries and back-off are the core's. Source: Kafka's ``KafkaNetworkChannel`` and ``InterBrokerSendThread``; KIP-595
§Request timeout; the codes also KIP-853.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeAlias

from pykraft.core import messages
from pykraft.core.effects import Peer, Report, Send
from pykraft.core.events import AnswerArriving, ConnectionLost, ResponseReceived, SendFailed
from pykraft.errors import ErrorCode, ProtocolError, error_name
from pykraft.host.authorization import Guard
from pykraft.host.inbox import NO_BATCHES, HeldMessages, Inbox, MessageKey
from pykraft.host.ports import AT_ONCE_MS, ConnectionId, Ports
from pykraft.protocol.messages import ApiKey
from pykraft.rpc.codec import Answer
from pykraft.rpc.connection import DialedConnection
from pykraft.rpc.context import RpcContext
from pykraft.rpc.fetched import read_batches, with_batches
from pykraft.security.principal import UNKNOWN_END, RemoteEnd
from pykraft.types import Buffer, Endpoint, Instant, NodeId, Offset, ReportKind

INCONSISTENT_VOTER_SET: Final = 94
"""What nodes before Kafka 3.x answer to a node that is not among their voters."""
NO_ANSWER: Final = "no answer yet"
NO_CONNECTION: Final = "no connection yet"
HUNG_UP: Final = "it closed the connection"
HUNG_UP_AT_ONCE: Final = "it closed the connection before it answered ApiVersions: is it a node of a quorum?"
SILENT_AT_ONCE: Final = "it accepts connections, but does not answer ApiVersions: is it a node of a quorum?"
_OF_ANOTHER_LEADER: Final = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerProblem:
    """A peer, what is wrong with it, and when it was first asked after its last useful answer (mono ms)."""

    peer: Peer
    text: str
    since_ms: int


def silence(request: object) -> str:
    """The problem of a peer that does not answer this request."""
    return f"no answer to {type(request).__name__.removesuffix('Request')}"


def problem_in(message: messages.Response, context: RpcContext) -> str | None:
    """The problem that an answer shows; None for an answer that is of use."""
    if isinstance(message, messages.TopLevelError) and message.error == ErrorCode.INVALID_REQUEST:
        return f"it may not have topic {context.topic_name}, which this node keeps: see pykraft.topic"
    if message.error == ErrorCode.INCONSISTENT_CLUSTER_ID:
        return f"it belongs to another cluster than this node, whose cluster.id is {context.cluster_id}"
    if message.error == ErrorCode.INVALID_VOTER_KEY:
        return "it is not the voter that this node expects: its node.id or directory.id is another one"
    if message.error == INCONSISTENT_VOTER_SET:
        return "this node is not among its voters (INCONSISTENT_VOTER_SET): compare controller.quorum.voters"
    if isinstance(message, messages.FetchResponse) and message.error in _OF_ANOTHER_LEADER:
        known = "knows no leader" if message.leader_id is None else f"names node {message.leader_id} as the leader"
        return f"it {known} in epoch {message.epoch}"
    if message.error:
        return f"it answers {error_name(message.error)}"
    if isinstance(message, messages.VoteResponse) and not message.vote_granted:
        if message.leader_id is not None:
            return f"it does not vote for this node, since it hears leader {message.leader_id} in epoch {message.epoch}"
        return f"it does not vote for this node in epoch {message.epoch}: its log may be longer, or its vote is given"
    return None


FindBatch: TypeAlias = Callable[[Offset, Callable[[Offset | None], None]], None]
"""Finds, now or later, the start of the batch that contains an offset; None when that is no longer possible."""
COMPLAINTS_MAX: Final = 20
"""Different log lines about one peer that are remembered as reported."""
PROBLEM_KEPT_MS: Final = 10_000
"""A peer that is needed is asked more often than this."""
PYKRAFTS_OWN: Final = (ApiKey.TRANSFER_LEADERSHIP, ApiKey.FORWARD)
"""APIs that only pykraft has."""
PEERS_MAX: Final = 100
"""Peers that are remembered; beyond that, the least recently used one is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Link:
    """A connection to a peer's endpoint, since ``begun_ms``, when dialing began."""

    id: ConnectionId
    endpoint: Endpoint
    begun_ms: int
    wire: DialedConnection


@dataclass(slots=True, kw_only=True)
class _Contact:
    """One peer: its newest unanswered request, whether the disk lets it leave, and its connection.

    ``told`` holds the lines reported about it since its last valid response: it is asked every few milliseconds, and an
    operator needs each line once. ``problem`` is what is wrong with it since its last useful response, and
    ``asked_since_ms`` when it was first asked after that (mono ms), ``asked_ms`` when it was asked last. After a longer
    time without a request, what was wrong before says nothing.
    """

    peer: Peer
    wanted: Send | None = None
    may_leave: bool = False
    link: _Link | None = None
    is_connected: bool = False
    told: set[str] = field(default_factory=set)
    problem: str | None = None
    asked_since_ms: int | None = None
    asked_ms: int = 0


class Peers:
    """All peers of one node."""

    def __init__(  # noqa: PLR0913 - all by name, and each is a neighbor or a setting of its own
        self,
        ports: Ports,
        inbox: Inbox,
        held: HeldMessages,
        *,
        context: RpcContext,
        client_id: str,
        request_timeout_ms: int,
        find_batch: FindBatch,
        on_pykraft: Callable[[NodeId], None] = lambda _: None,
        guard: Guard | None = None,
    ) -> None:
        """``on_pykraft`` hears the id of each peer that serves an API of pykraft's own.

        ``guard`` says which principal may answer as which node; None: any.
        """
        self._guard = guard
        self.violations = 0
        """Number of connections that were closed because of invalid responses."""
        self._ports = ports
        self._inbox = inbox
        self._held = held
        self._context = context
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._find_batch = find_batch
        self._on_pykraft = on_pykraft
        self._is_shutting_down = False
        self._contacts: dict[int, _Contact] = {}
        self._by_connection: dict[ConnectionId, _Contact] = {}

    def owns(self, connection: ConnectionId) -> bool:
        """True for an open connection that this node dialed."""
        return connection in self._by_connection

    def send(self, effect: Send, now: Instant) -> None:
        """Send a request once its write is durable and the connection is ready; it voids an older one."""
        contact = self._contact(effect.peer)
        # Rules 2 and 4. The late response would hold up this request.
        if contact.asked_since_ms is None or now.mono_ms - contact.asked_ms > PROBLEM_KEPT_MS:
            contact.asked_since_ms, contact.problem = now.mono_ms, None
        contact.asked_ms = now.mono_ms
        if contact.link is not None and self._is_spent(contact.link, effect, now):
            self._note_silence(contact)
            self._hang_up(contact)
        if _acknowledges(effect):
            # Rule 3: only one such Fetch may be in flight.
            self._void_other_fetch(contact)
        contact.peer, contact.wanted, contact.may_leave = effect.peer, effect, False
        if contact.link is None:
            # Rule 1. Connecting and negotiating overlap with the disk writes that the request relies on.
            self._dial(contact, now)
        self._held.send_when_durable(_key(contact), effect.after, lambda: self._let_leave(contact))

    def begin_shutdown(self) -> None:
        """From now on, tell the core of idle connections that end, too."""
        self._is_shutting_down = True

    def on_connected(self, connection: ConnectionId, end: RemoteEnd = UNKNOWN_END) -> None:
        """A dial succeeded: negotiate, unless it is somebody else who answers there."""
        contact = self._by_connection.get(connection)
        if contact is not None and contact.link is not None:
            contact.is_connected = True
            # Bootstrap servers have no id yet, and nothing of theirs counts as a vote.
            if self._guard is not None and contact.peer.id >= 0:
                problem = self._guard.impostor(end.principal, contact.peer.id, is_dialed=True)
                if problem is not None:
                    self._give_up(contact, problem)
                    return
            self._ports.send(connection, contact.link.wire.negotiate())

    def on_closed(self, connection: ConnectionId, *, is_refused: bool = False, reason: str = "") -> None:
        """A dial failed, or the connection broke; ``reason`` says why, if that is known."""
        contact = self._by_connection.pop(connection, None)
        if contact is None:
            return
        is_negotiated = contact.link is not None and contact.link.wire.is_negotiated
        contact.problem = reason or (HUNG_UP if is_negotiated else HUNG_UP_AT_ONCE)
        # Closed on this side, because of what the peer sent.
        if reason and contact.is_connected:
            self._tell_closed(contact, reason)
        contact.link = None
        if contact.wanted is not None:
            self._fail(contact, ErrorCode.BROKER_NOT_AVAILABLE, is_refused=is_refused)
        # The voter may have ended after it acknowledged that this leader resigned (ADR 045).
        elif self._is_shutting_down:
            self._inbox.put(ConnectionLost(peer_id=contact.peer.id))

    def on_frame(self, connection: ConnectionId, data: Buffer) -> None:
        contact = self._by_connection[connection]
        assert contact.link is not None
        wire, answer = contact.link.wire, None
        try:
            if wire.is_negotiated:
                answer = wire.answered(data, self._context)
            else:
                wire.negotiated(data)
                self._note_software(contact.peer.id, wire)
        except ProtocolError as error:
            # Rule 5.
            self._give_up(contact, str(error))
            return
        if answer is not None:
            self._pass_on(contact, answer)
        self._advance(contact)

    def _note_software(self, peer_id: int, wire: DialedConnection) -> None:
        """A listener that serves no operators lists none of these: its node tells its name when it fetches."""
        if peer_id >= 0 and any(wire.offers_key(key) for key in PYKRAFTS_OWN):
            self._on_pykraft(NodeId(peer_id))

    def problems(self) -> list[PeerProblem]:
        """What is wrong with each peer that has given no useful answer since it was asked; least recent first."""
        return [
            PeerProblem(peer=each.peer, text=each.problem or NO_ANSWER, since_ms=each.asked_since_ms)
            for each in self._contacts.values()
            if each.asked_since_ms is not None
        ]

    def arriving(self) -> list[AnswerArriving]:
        """How much of each incomplete response has arrived."""
        found: list[AnswerArriving] = []
        for contact in self._contacts.values():
            send, link = contact.wanted, contact.link
            if send is None or link is None or not link.wire.is_negotiated or link.wire.is_ready:
                continue
            received_bytes, size_bytes = self._ports.received_size_bytes(link.id)
            if received_bytes:
                arriving = AnswerArriving(
                    peer_id=contact.peer.id,
                    correlation_id=send.correlation_id,
                    received_bytes=received_bytes,
                    size_bytes=size_bytes,
                )
                found.append(arriving)
        return found

    def close(self, peer_id: int, reason: str) -> None:
        """The core rejected a response that no correct replica sends."""
        contact = self._contacts.get(peer_id)
        if contact is not None:
            self._give_up(contact, reason)

    def _contact(self, peer: Peer) -> _Contact:
        """The entry of a peer, now the most recently used one."""
        contact = self._contacts.pop(peer.id, None)
        if contact is None:
            contact = _Contact(peer=peer)
            if len(self._contacts) >= PEERS_MAX:
                oldest = self._contacts.pop(next(iter(self._contacts)))
                # Other nodes can name any number of ids, so the number of entries has a limit.
                self._hang_up(oldest)
                self._fail(oldest, ErrorCode.BROKER_NOT_AVAILABLE)
        self._contacts[peer.id] = contact
        return contact

    def _is_spent(self, link: _Link, effect: Send, now: Instant) -> bool:
        """True when a new request should not wait for this connection."""
        if link.endpoint != effect.peer.endpoint:
            return True
        if link.wire.is_negotiated:
            return not link.wire.is_ready
        return now.mono_ms - link.begun_ms >= self._request_timeout_ms

    def _note_silence(self, contact: _Contact) -> None:
        """A new request does not wait for this connection: note what the peer has not done."""
        if not contact.is_connected:
            contact.problem = NO_CONNECTION
        elif contact.link is not None and not contact.link.wire.is_negotiated:
            contact.problem = SILENT_AT_ONCE
        elif contact.wanted is not None:
            contact.problem = silence(contact.wanted.message)

    def _void_other_fetch(self, contact: _Contact) -> None:
        for other in self._contacts.values():
            if other is contact or other.wanted is None or not _acknowledges(other.wanted):
                continue
            has_left = other.may_leave and other.link is not None and other.link.wire.is_negotiated
            if not has_left:
                self._fail(other, ErrorCode.REQUEST_TIMED_OUT)

    def _dial(self, contact: _Contact, now: Instant) -> None:
        endpoint = contact.peer.endpoint
        connection = self._ports.dial(endpoint)
        wire = DialedConnection(self._client_id)
        contact.is_connected = False
        contact.link = _Link(id=connection, endpoint=endpoint, begun_ms=now.mono_ms, wire=wire)
        self._by_connection[connection] = contact

    def _let_leave(self, contact: _Contact) -> None:
        contact.may_leave = True
        self._advance(contact)

    def _advance(self, contact: _Contact) -> None:
        send, link = contact.wanted, contact.link
        if send is None or not contact.may_leave or link is None or not link.wire.is_ready:
            return
        try:
            parts = link.wire.ask(send.message, self._context)
        except ProtocolError as error:
            contact.problem = str(error)
            self._fail(contact, error.code)
            return
        self._ports.send(link.id, parts)

    def _pass_on(self, contact: _Contact, answer: Answer) -> None:
        """Pass the response to the core. The core gets batch headers only; the bytes travel beside the event."""
        send, contact.wanted = contact.wanted, None
        assert send is not None, "what was answered was asked, and nothing newer"
        message, batches = answer.message, NO_BATCHES
        if message.error:
            self._explain(contact, message.error, is_above=isinstance(message, messages.TopLevelError))
        else:
            contact.told.clear()
        contact.problem = problem_in(message, self._context)
        if contact.problem is None:
            contact.asked_since_ms = None
        slice_data: Buffer = b""
        if isinstance(message, messages.FetchResponse):
            fetched = read_batches(answer.records)
            message, batches = with_batches(message, fetched), fetched.batches
            if message.diverging is not None:
                then = partial(self._pass_on_diverging, contact.peer.id, send.correlation_id, message)
                self._find_batch(message.diverging.offset, then)
                return
        elif isinstance(message, messages.FetchSnapshotResponse):
            slice_data = answer.records
            message = replace(message, received_bytes=len(slice_data))
        event = ResponseReceived(peer_id=contact.peer.id, correlation_id=send.correlation_id, message=message)
        self._inbox.put(event, batches, slice_data)

    def _pass_on_diverging(
        self, peer_id: int, correlation_id: int, message: messages.FetchResponse, batch_start: Offset | None
    ) -> None:
        event: ResponseReceived | SendFailed
        if batch_start is None:
            # The log has changed since, or is damaged there: ask the leader again.
            event = SendFailed(
                peer_id=peer_id, correlation_id=correlation_id, error=int(ErrorCode.BROKER_NOT_AVAILABLE)
            )
        else:
            answer = replace(message, batch_start=batch_start)
            event = ResponseReceived(peer_id=peer_id, correlation_id=correlation_id, message=answer)
        self._inbox.put(event)
        # A file read may have led here, outside of any step: let the host take the event soon.
        self._ports.wake_at(AT_ONCE_MS)

    def _give_up(self, contact: _Contact, reason: str) -> None:
        self.violations += 1
        contact.problem = reason
        self._tell_closed(contact, reason)
        self._hang_up(contact)
        self._fail(contact, ErrorCode.BROKER_NOT_AVAILABLE)

    def _explain(self, contact: _Contact, error: int, *, is_above: bool) -> None:
        """Report what an operator has to fix; ``is_above`` means that the error is not the partition's."""
        who = f"peer {contact.peer.id} at {contact.peer.endpoint}"
        if error == ErrorCode.INCONSISTENT_CLUSTER_ID:
            own = self._context.cluster_id
            self._log_once(contact, f"{who} belongs to another cluster than this node, whose cluster.id is {own}")
        elif error == ErrorCode.INVALID_REQUEST and is_above:
            own = self._context.topic_name
            self._log_once(contact, f"{who} may not have topic {own}, which this node keeps: see pykraft.topic")

    def _tell_closed(self, contact: _Contact, reason: str) -> None:
        text = f"closing the connection to peer {contact.peer.id} at {contact.peer.endpoint}: {reason}"
        self._log_once(contact, text, ReportKind.PEER_CLOSED)

    def _log_once(self, contact: _Contact, text: str, kind: ReportKind = ReportKind.EVENT) -> None:
        if text not in contact.told:
            if len(contact.told) >= COMPLAINTS_MAX:
                contact.told.clear()
            contact.told.add(text)
            self._ports.report(Report(text=text, kind=kind, values=(contact.peer.id,)))

    def _hang_up(self, contact: _Contact) -> None:
        link, contact.link = contact.link, None
        if link is not None:
            del self._by_connection[link.id]
            self._ports.close(link.id)

    def _fail(self, contact: _Contact, error: int, *, is_refused: bool = False) -> None:
        send, contact.wanted = contact.wanted, None
        if send is not None:
            self._held.drop(_key(contact))
            failed = SendFailed(
                peer_id=contact.peer.id, correlation_id=send.correlation_id, error=error, is_refused=is_refused
            )
            self._inbox.put(failed)


def _acknowledges(effect: Send) -> bool:
    """True for a Fetch whose offset is an acknowledgement; a question to a doubtful voter has no id, and is none."""
    return isinstance(effect.message, messages.FetchRequest) and effect.message.replica is not None


def _key(contact: _Contact) -> MessageKey:
    return ("request to peer", contact.peer.id)

"""Requests from other nodes and clients: decode them, pass them to the core, answer in the order of arrival.

This module owns the accepted connections and the request ids that the core uses. Invariant: each request gets at most
one answer, and a connection's answers leave in the order of its requests, as Kafka's protocol promises. An answer that
is ready waits for earlier ones, for instance behind a parked Fetch. At most UNANSWERED_REQUESTS_MAX requests of one
connection are outstanding; one more closes the connection.

No input raises. An invalid request is handled as follows:

- ApiVersions of an unknown version: an answer of version 0 with UNSUPPORTED_VERSION. An unreadable ApiVersions:
  INVALID_REQUEST. No other API has an answer that a client of an unknown version could read.
- Another cluster or topic: the protocol's error, from ``rpc``, without the core.
- Anything else (an unknown API or version, an unreadable body, garbage): one log line, and the connection is closed.

`AcceptedConnection` is the answering end of one connection, as `pykraft.rpc.connection` is the asking end: Fetches that
repeat, and their answers, take the shorter way of `pykraft.rpc.fetch_template`.

`ServedApis` says which APIs each listener serves. The RPCs of replicas and Forward are for the listeners of
``controller.listener.names``, since whoever reaches them can vote, lead and acknowledge in a voter's name; so are
`OPERATOR_KEYS`, unless the configuration names others. The APIs of Kafka's clients are where it names them.

Source: Kafka's ``SocketServer`` and ``RequestChannel``; KIP-511, KIP-919, KIP-1242; Kafka 4.4's
``KafkaApis.handleApiVersionsRequest``; ADR 071.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from pykraft.core.effects import Report
from pykraft.core.events import UNSEEN_SIZE_BYTES, AnswerLeaving, RequestAbandoned, RequestReceived
from pykraft.core.messages import DescribeQuorumResponse, FetchRequest, Request, Response
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.host import controller_answers
from pykraft.host.authorization import Guard, refused_body
from pykraft.host.inbox import HeldMessages, Inbox
from pykraft.host.ports import ConnectionId, Ports
from pykraft.protocol import api
from pykraft.protocol.api import RequestHeader, decode_request_body, encode_response, encode_unsupported_version, frame
from pykraft.protocol.cut_frame import CutFrame
from pykraft.protocol.messages import API_VERSIONS, CLIENT_KEYS, CLIENT_VERSIONS, FORWARD_VERSIONS, SASL_APIS, ApiKey
from pykraft.protocol.schema import Body, Versions
from pykraft.rpc import api_versions, codec
from pykraft.rpc.context import Refusal, RpcContext
from pykraft.rpc.fetch_template import AnswerWriter, RequestReader
from pykraft.security.acls import AclOperation
from pykraft.security.principal import UNKNOWN_END, RemoteEnd
from pykraft.types import Buffer, ReportKind, VersionRange

_HEADER: Final = struct.Struct(">i")
_ILLEGAL_SASL_STATE: Final = struct.pack(">hi", ErrorCode.ILLEGAL_SASL_STATE, 0)
"""Kafka's answer where no SASL is spoken: the error, and no mechanisms."""
OPERATOR_KEYS: Final = frozenset(
    {ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER, ApiKey.UPDATE_FEATURES, ApiKey.TRANSFER_LEADERSHIP}
)
"""APIs for operators and for a replica with auto-join; voters do not need them."""
ANYWHERE_KEYS: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.DESCRIBE_CLUSTER, ApiKey.DESCRIBE_QUORUM})
"""APIs that change nothing, and that Kafka serves on the listeners of brokers and of controllers."""
_ANYWHERE: Final[Mapping[int, Versions]] = {int(key): API_VERSIONS[key] for key in ANYWHERE_KEYS}
_OPERATORS: Final[Mapping[int, Versions]] = {int(key): API_VERSIONS[key] for key in OPERATOR_KEYS}
_REPLICAS: Final[Mapping[int, Versions]] = {
    int(key): versions for key, versions in API_VERSIONS.items() if key not in OPERATOR_KEYS
}
_CLIENTS: Final[Mapping[int, Versions]] = {int(key): versions for key, versions in CLIENT_VERSIONS.items()}


class ServedApis:
    """The APIs of one node."""

    def __init__(  # noqa: PLR0913 - as of Inbound
        self,
        *,
        kraft_versions: VersionRange | None,
        kraft_version: Callable[[], int],
        operator_listeners: Collection[str] | None,
        client_listeners: Collection[str],
        cluster_id: str | None = None,
        node_id: int = -1,
        refuses_controller_requests: bool,
        controller_listeners: Collection[str] | None = None,
        serves_produce: bool = True,
        sasl_listeners: Collection[str] = (),
    ) -> None:
        """See `pykraft.host.inbound.Inbound`; names of listeners are in upper case.

        Who means another cluster or node (KIP-1242) is told so.
        """
        self._identity = (cluster_id, node_id)
        self._kraft_versions = kraft_versions
        self._kraft_version = kraft_version
        self._operator_listeners = controller_listeners if operator_listeners is None else operator_listeners
        self._client_listeners = client_listeners
        self._controller_listeners = controller_listeners
        self._sasl_listeners = sasl_listeners
        self._clients = {key: _CLIENTS[key] for key in _CLIENTS if key != ApiKey.PRODUCE or serves_produce}
        self._refused = controller_answers.SERVED if refuses_controller_requests else {}
        self._served: dict[tuple[str, bool], Mapping[int, Versions]] = {}

    def on(self, listener: str, *, forwards: bool) -> Mapping[int, Versions]:
        """The APIs that a listener serves; ``forwards`` while a program has a state machine on this node."""
        known = self._served.get((listener, forwards))
        if known is None:
            known = self._served[listener, forwards] = self._on(listener, forwards=forwards)
        return known

    def is_for_replicas(self, listener: str) -> bool:
        """Whether replicas of the quorum may use this listener."""
        return self._controller_listeners is None or listener.upper() in self._controller_listeners

    def _on(self, listener: str, *, forwards: bool) -> Mapping[int, Versions]:
        name, served = listener.upper(), _ANYWHERE
        if self._operator_listeners is None or name in self._operator_listeners:
            served = {**served, **_OPERATORS}
        if self.is_for_replicas(listener):
            served = {**served, **_REPLICAS, **self._refused}
            if forwards:
                served = {**served, ApiKey.FORWARD: FORWARD_VERSIONS}
        if name in self._client_listeners:
            served = {**served, **self._clients, ApiKey.SASL_HANDSHAKE: SASL_APIS[ApiKey.SASL_HANDSHAKE]}
        return {**served, **SASL_APIS} if name in self._sasl_listeners else served

    def refusal(self, header: RequestHeader, listener: str) -> list[Buffer] | None:
        """The answer to a request for Kafka's active controller, or for SASL; None for any other request."""
        if header.api_key in self._refused:
            return [controller_answers.answer(header.api_key, header.correlation_id)]
        key = ApiKey.SASL_HANDSHAKE
        is_handshake = header.api_key == key and header.api_version in SASL_APIS[key]
        if is_handshake and listener.upper() in self._client_listeners:
            return [_HEADER.pack(header.correlation_id) + _ILLEGAL_SASL_STATE]
        return None

    def answer_api_versions(
        self, header: RequestHeader, data: Buffer, listener: str, *, forwards: bool
    ) -> tuple[list[Buffer], str | None]:
        """The APIs that a listener serves, as `on` has them, and what the client calls itself, if it says so.

        In version 0 if the client's version is unknown. As on Kafka's brokers, a client that names a cluster and means
        another cluster or node gets REBOOTSTRAP_REQUIRED alone. Kafka's controllers do not compare; ours do where a
        node is named, since a leader must not take a voter's address at which another node listens.
        """
        served = self.on(listener, forwards=forwards)
        software: str | None = None
        if header.api_version not in API_VERSIONS[ApiKey.API_VERSIONS]:
            return encode_unsupported_version(header.correlation_id, served.items()), software
        levels, level = self._kraft_versions, self._kraft_version()
        body = api_versions.response_to_wire(header.api_version, served, levels, level)
        try:
            asked = decode_request_body(header, data)
        except ProtocolError:
            body["error_code"] = ErrorCode.INVALID_REQUEST
        else:
            software = asked["client_software_name"] or None
            is_meant = asked["cluster_id"] is None or (asked["cluster_id"], asked["node_id"]) == self._identity
            if not is_meant and (listener.upper() in self._client_listeners or asked["node_id"] >= 0):
                body = {"error_code": ErrorCode.REBOOTSTRAP_REQUIRED}
        return encode_response(ApiKey.API_VERSIONS, header.api_version, header.correlation_id, body), software


ANSWERED_KEYS: Final[Collection[int]] = codec.RPCS.keys()
"""The APIs that the core answers."""


class AcceptedConnection:
    """Create it when the connection is accepted."""

    def __init__(self, context: RpcContext) -> None:
        self._context = context
        self._fetches = RequestReader()
        self._answers = AnswerWriter()

    def repeated(self, data: Buffer) -> tuple[RequestHeader, Request] | None:
        """Read a Fetch that is like earlier ones for the core on this connection; None for any other frame."""
        return self._fetches.read(data)

    def decode(self, header: RequestHeader, data: Buffer) -> Request | Refusal:
        """Read a request of `ANSWERED_KEYS`; see `pykraft.rpc.codec.decode_request`. Errors: ProtocolError."""
        message = codec.decode_request(header, data, self._context)
        if isinstance(message, FetchRequest):
            self._fetches.missed(data, header, message, self._context)
        return message

    def encode(self, header: RequestHeader, answer: Response | Refusal, records: Sequence[Buffer] = ()) -> list[Buffer]:
        """Write the answer to the request with this header; ``records`` only for Fetch and FetchSnapshot."""
        found = None if isinstance(answer, Refusal) else self._answers.write(header, answer, records, self._context)
        return found or codec.encode_answer(header, answer, self._context, records)


UNANSWERED_REQUESTS_MAX: Final = 32
"""Outstanding requests of one connection; Kafka's clients have at most five."""

_OF_CLIENTS: Final = CLIENT_KEYS | {ApiKey.FETCH, ApiKey.DESCRIBE_CLUSTER}
BROKERS: Final = 1
"""The endpoint type of DescribeCluster by which a client asks for brokers."""

Describe: TypeAlias = Callable[[Body, str], Body]
"""Answers DescribeCluster, given the request and the listener where it arrived."""
ServeForward: TypeAlias = Callable[[Body, Callable[[Body], None]], None]
"""Serves a Forward request; the callback gets the answer later."""


class Requester(Protocol):
    """The connection of a client, and the listener to which it was made."""

    client_id: str
    """What its last request calls the client."""
    is_trusted: bool | None
    """Whether its last batch was sound; None before the first."""

    @property
    def connection(self) -> ConnectionId:
        """Answers on it leave in the order of the requests."""

    @property
    def listener(self) -> str:
        """Name of the listener."""

    @property
    def end(self) -> RemoteEnd:
        """Who it is, as far as that was proven."""


class Clients(Protocol):
    """Answers requests of Kafka's own clients; see `pykraft.host.clients.client_requests.ClientRequests`."""

    def serves(self, api_key: int, body: Body) -> bool:
        """True for a request of a client, false for one of a replica."""

    def handle(
        self,
        api_key: int,
        version: int,
        body: Body,
        requester: Requester,
        is_wanted: Callable[[], bool],
        answer: Callable[[Body | ProtocolError | None], None],
    ) -> Callable[[], object] | None:
        """Answer one request, now or later; None for one that wants no answer, an error to close its connection.

        Returns what must be called if the connection closes before the answer, if anything.
        """

    def refuse_too_large(self, header: RequestHeader, data: CutFrame) -> Body:
        """Answer a Produce request of which only the beginning is known. Errors: ProtocolError."""

    def describe_brokers(self, listener: str) -> Body:
        """Answer DescribeCluster for a client."""

    def replica_fetched(self, request: FetchRequest, software: str | None) -> None:
        """A replica fetches from this node; ``software`` is its name in ApiVersions, None if it did not say."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Request:
    """One request; ``answer`` waits here until earlier ones are sent, ``on_gone`` must be called if nobody waits."""

    request_id: int
    header: api.RequestHeader
    requester: _Requester
    answer: list[Buffer] | None = None
    is_watched: bool = False
    on_gone: Callable[[], object] | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class _Requester:
    """One connection and its unanswered requests, oldest first.

    ``software`` is the name of the other end in ApiVersions, ``is_trusted`` see `Requester`. ``leaving`` is the last
    answer sent that the core wants watched: its request id and its size.
    """

    connection: ConnectionId
    listener: str
    end: RemoteEnd
    wire: AcceptedConnection
    requests: deque[_Request] = field(default_factory=deque)
    software: str | None = None
    client_id: str = ""
    is_trusted: bool | None = None
    leaving: tuple[int, int] | None = None


class Inbound:
    """All connections that others made to this node."""

    def __init__(  # noqa: PLR0913 - all by name, and each is a neighbor or a setting of its own
        self,
        ports: Ports,
        inbox: Inbox,
        held: HeldMessages,
        *,
        context: RpcContext,
        node_id: int = -1,
        describe_cluster: Describe,
        kraft_versions: VersionRange | None,
        kraft_version: Callable[[], int],
        operator_listeners: Collection[str] | None = None,
        clients: Clients | None = None,
        client_listeners: Collection[str] = (),
        refuses_controller_requests: bool = False,
        controller_listeners: Collection[str] | None = None,
        serves_produce: bool = True,
        sasl_listeners: Collection[str] = (),
        guard: Guard | None = None,
    ) -> None:
        """``node_id`` is -1 for a node without one.

        ``kraft_versions`` is None for a node that may never become a voter; ``kraft_version`` returns the level.

        ``controller_listeners`` serve replicas and Forward; None: all do. ``operator_listeners`` serve `OPERATOR_KEYS`;
        None: those of replicas do. ``client_listeners`` serve all that ``clients`` answers. All names are in upper
        case. ``refuses_controller_requests``: a voter among Kafka's controllers answers what is for the active one with
        NOT_CONTROLLER. Without ``serves_produce`` none serves Produce. ``guard`` refuses what others may not do; None:
        they may do everything. On ``sasl_listeners`` connections authenticate.
        """
        self._guard = guard
        self.violations = 0
        """Number of connections that were closed because of invalid requests."""
        self._ports = ports
        self._inbox = inbox
        self._held = held
        self._context = context
        self._describe_cluster = describe_cluster
        self.serve_forward: ServeForward | None = None
        """Serves Forward; None while no program has a state machine on this node."""
        self._clients = clients
        self._client_listeners = client_listeners
        self._apis = ServedApis(
            kraft_versions=kraft_versions,
            kraft_version=kraft_version,
            operator_listeners=operator_listeners,
            client_listeners=self._client_listeners,
            cluster_id=context.cluster_id,
            node_id=node_id,
            refuses_controller_requests=refuses_controller_requests,
            controller_listeners=controller_listeners,
            serves_produce=serves_produce,
            sasl_listeners=sasl_listeners,
        )
        self._requesters: dict[ConnectionId, _Requester] = {}
        self._requests: dict[int, _Request] = {}
        self._watched: dict[ConnectionId, _Requester] = {}
        self._next_request_id = 1

    def on_accepted(self, connection: ConnectionId, listener: str, end: RemoteEnd = UNKNOWN_END) -> None:
        """Somebody connected; ``end`` says for each request who that is."""
        self._requesters[connection] = _Requester(
            connection=connection, listener=listener, end=end, wire=AcceptedConnection(self._context)
        )

    def answer_api_versions(self, listener: str, data: Buffer) -> list[Buffer]:
        """The frame for somebody who is not authenticated yet. Errors: ProtocolError for an unreadable header."""
        header, forwards = api.decode_request_header(data), self.serve_forward is not None
        return frame(self._apis.answer_api_versions(header, data, listener, forwards=forwards)[0])

    def on_closed(self, connection: ConnectionId) -> None:
        """The connection is gone: drop its requests and answers."""
        requester = self._requesters.pop(connection, None)
        self._watched.pop(connection, None)
        for request in requester.requests if requester else ():
            is_unanswered = self._requests.pop(request.request_id, None) is not None
            if is_unanswered and request.on_gone is not None:
                request.on_gone()
            elif is_unanswered and request.header.api_key == ApiKey.FETCH:
                # The core may have parked this Fetch.
                self._inbox.put(RequestAbandoned(request_id=request.request_id))
            self._held.drop(("reply to request", request.request_id))

    def on_frame(self, connection: ConnectionId, data: Buffer) -> None:
        """A request arrived; ignored on a connection that was closed."""
        requester = self._requesters.get(connection)
        if requester is None:
            return
        self._watched.pop(connection, None)
        if len(requester.requests) >= UNANSWERED_REQUESTS_MAX:
            self._close(requester, f"{UNANSWERED_REQUESTS_MAX} of its requests are unanswered")
            return
        found = None if isinstance(data, CutFrame) else requester.wire.repeated(data)
        if found is not None:
            # The same bytes but for three numbers were found to be a Fetch for the core before.
            if self._guard is None:
                self._pass_on(requester, *found)
            else:
                self._check(requester, *found)
            return
        try:
            header = api.decode_request_header(data)
            if isinstance(data, CutFrame):
                self._refuse_cut(requester, header, data)
            else:
                self._handle(requester, header, data)
        except ProtocolError as error:
            self._close(requester, str(error))

    def awaits(self, request_id: int) -> bool:
        """True while this request waits for its answer."""
        return request_id in self._requests

    def reply(
        self, request_id: int, message: Response, records: Sequence[Buffer] = (), *, is_watched: bool = False
    ) -> None:
        """Answer a request, unless its connection is gone. `leaving` reports the progress of a watched answer."""
        request = self._requests.get(request_id)
        if request is not None:
            request.is_watched = is_watched
            self._answer(request, request.requester.wire.encode(request.header, message, records))
            if self._must_ask_another(request.requester, message):
                self.on_closed(request.requester.connection)
                self._ports.close(request.requester.connection)

    def leaving(self) -> list[AnswerLeaving]:
        """How much of each watched answer has left; a complete small one is reported once more and then dropped."""
        found: list[AnswerLeaving] = []
        for connection, requester in list(self._watched.items()):
            assert requester.leaving is not None
            request_id, size_bytes = requester.leaving
            unsent_bytes = self._ports.unsent_size_bytes(connection)
            sent_bytes = max(0, size_bytes - unsent_bytes)
            found.append(AnswerLeaving(request_id=request_id, sent_bytes=sent_bytes, size_bytes=size_bytes))
            if unsent_bytes == 0 and size_bytes < UNSEEN_SIZE_BYTES:
                # Complete: this is the last report that the core needs. More bytes may be in buffers on their way.
                del self._watched[connection]
        return found

    def close(self, request_id: int, reason: str) -> None:
        """Close the connection of a request that no correct replica sends."""
        request = self._requests.get(request_id)
        if request is not None:
            self._close(request.requester, reason)

    def _refuse_cut(self, requester: _Requester, header: api.RequestHeader, data: CutFrame) -> None:
        """Answer a Produce request that is too large; any other is not known to be one. Errors: ProtocolError."""
        if (
            self._clients is None
            or header.api_key != ApiKey.PRODUCE
            or ApiKey.PRODUCE not in self._served(requester.listener)
        ):
            raise ProtocolError(f"its request of API {header.api_key} is too large")
        body = self._clients.refuse_too_large(header, data)
        self._answer_client(self._note(requester, header), body)

    def _handle(self, requester: _Requester, header: api.RequestHeader, data: Buffer) -> None:
        """Answer a request or pass it to the core. Errors: ProtocolError when the request has no answer."""
        if header.api_key == ApiKey.API_VERSIONS:
            forwards = self.serve_forward is not None
            answer, requester.software = self._apis.answer_api_versions(
                header, data, requester.listener, forwards=forwards
            )
            self._answer(self._note(requester, header), answer)
        elif (self._guard is not None and self._is_refused(self._guard, requester, header)) or (
            self._clients is not None and self._is_of_client(self._clients, requester, header, data)
        ):
            pass
        elif header.api_key == ApiKey.DESCRIBE_CLUSTER:
            wanted = api.decode_request_body(header, data)
            may = self._guard is None or self._guard.allows(requester, header.api_key, AclOperation.DESCRIBE)
            body = self._describe_cluster(wanted, requester.listener) if may else refused_body(header.api_key)
            answer = api.encode_response(header.api_key, header.api_version, header.correlation_id, body)
            self._answer(self._note(requester, header), answer)
        elif self.serve_forward is not None and header.api_key == ApiKey.FORWARD in self._served(requester.listener):
            wanted = api.decode_request_body(header, data)
            request = self._note(requester, header)
            self.serve_forward(wanted, lambda body: self._answer_client(request, body))
        elif (refusal := self._apis.refusal(header, requester.listener)) is not None:
            self._answer(self._note(requester, header), refusal)
        elif header.api_key not in ANSWERED_KEYS or header.api_key not in self._served(requester.listener):
            raise ProtocolError(f"it asks for API {header.api_key}, which this node does not serve")
        else:
            self._check(requester, header, requester.wire.decode(header, data))

    def _is_refused(self, guard: Guard, requester: _Requester, header: api.RequestHeader) -> bool:
        """Answer a request that this requester may not make; False for any that is served here, or nowhere."""
        key, versions = header.api_key, self._served(requester.listener).get(header.api_key)
        if versions is None or header.api_version not in versions or guard.admits(requester, key):
            return False
        if key in controller_answers.ANSWERS:
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            answer: list[Buffer] = [controller_answers.answer(key, header.correlation_id, code)]
        else:
            answer = encode_response(key, header.api_version, header.correlation_id, refused_body(key))
        self._answer(self._note(requester, header), answer)
        return True

    def _check(self, requester: _Requester, header: api.RequestHeader, message: Request | Refusal) -> None:
        """Pass a request on to the core, or answer that it is refused."""
        if self._guard is not None:
            message = self._guard.checked(requester, header, message)
        if isinstance(message, Refusal):
            self._answer(self._note(requester, header), requester.wire.encode(header, message))
        else:
            self._pass_on(requester, header, message)

    def _pass_on(self, requester: _Requester, header: api.RequestHeader, message: Request) -> None:
        if self._clients is not None and isinstance(message, FetchRequest):
            self._clients.replica_fetched(message, requester.software)
        request_id = self._note(requester, header).request_id
        self._inbox.put(RequestReceived(request_id=request_id, listener=requester.listener, message=message))

    def _is_of_client(self, clients: Clients, requester: _Requester, header: api.RequestHeader, data: Buffer) -> bool:
        """Answer a request of one of Kafka's clients; False for any other. Errors: ProtocolError, as `_handle`."""
        key = header.api_key
        if requester.listener.upper() not in self._client_listeners or key not in _OF_CLIENTS:
            return False
        if key == ApiKey.PRODUCE and key not in self._served(requester.listener):
            return False
        wanted = api.decode_request_body(header, data)
        if key == ApiKey.DESCRIBE_CLUSTER:
            if wanted["endpoint_type"] != BROKERS:
                return False
            self._answer_client(self._note(requester, header), clients.describe_brokers(requester.listener))
            return True
        if not clients.serves(key, wanted) and self._apis.is_for_replicas(requester.listener):
            return False
        requester.client_id = header.client_id or ""
        request = self._note(requester, header)
        request.on_gone = clients.handle(
            key,
            header.api_version,
            wanted,
            requester,
            lambda: self.awaits(request.request_id),
            lambda body: self._answer_client(request, body),
        )
        return True

    def _must_ask_another(self, requester: _Requester, message: Response) -> bool:
        """Whether this answer is the last one of its connection.

        Kafka's admin client takes the nodes of a client listener for brokers, which forward DescribeQuorum. It repeats
        the question at the node that refused, until its timeout, unless the connection is gone (ADR 073).
        """
        if not isinstance(message, DescribeQuorumResponse) or message.error != ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return False
        return requester.listener.upper() in self._client_listeners

    def _served(self, listener: str) -> Mapping[int, Versions]:
        return self._apis.on(listener, forwards=self.serve_forward is not None)

    def _answer_client(self, request: _Request, body: Body | ProtocolError | None) -> None:
        """Answer a client's request, unless its connection is gone. None: it wants no answer (Produce with acks 0)."""
        if isinstance(body, ProtocolError):
            self.close(request.request_id, str(body))
        elif self.awaits(request.request_id):
            header, answer = request.header, list[Buffer]()
            if body is not None:
                answer = api.encode_response(header.api_key, header.api_version, header.correlation_id, body)
            self._answer(request, answer)

    def _note(self, requester: _Requester, header: api.RequestHeader) -> _Request:
        request = _Request(request_id=self._next_request_id, header=header, requester=requester)
        self._next_request_id += 1
        self._requests[request.request_id] = request
        requester.requests.append(request)
        return request

    def _answer(self, request: _Request, answer: list[Buffer]) -> None:
        """Send this answer and those that waited for it, unless an older request is unanswered."""
        request.answer = answer
        del self._requests[request.request_id]
        requester = request.requester
        waiting = requester.requests
        # Answers leave in the order of the requests, as Kafka's protocol promises. One may wait behind a parked Fetch.
        while waiting and (ready := waiting[0].answer) is not None:
            sent = waiting.popleft()
            # Nothing is sent without an answer, but the connection's next request may come.
            parts = frame(ready) if ready else []
            self._ports.send(requester.connection, parts)
            if sent.is_watched:
                requester.leaving = (sent.request_id, sum(map(len, parts)))
                self._watched[requester.connection] = requester

    def _close(self, requester: _Requester, reason: str) -> None:
        self.violations += 1
        text = f"closing connection {requester.connection} on {requester.listener}: {reason}"
        self._ports.report(Report(text=text, kind=ReportKind.REQUESTER_CLOSED, values=(requester.connection,)))
        self.on_closed(requester.connection)
        self._ports.close(requester.connection)

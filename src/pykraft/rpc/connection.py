"""The asking end of one connection: it negotiates versions first, then carries one request at a time.

It owns the correlation ids, which start at 0 on every connection, the versions that the other end supports, and the
bound of the answers. Invariant: at most one request is unanswered, so each answer must answer that one, or the owner
closes the connection. It builds and reads bytes. The owner has the socket: the host one per peer, a client one per
node.

Source: KIP-35, KIP-511; Kafka's ``NetworkClient``.
"""

from typing import Final

from pykraft import __version__
from pykraft.core.messages import FetchRequest, Request
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.api import FrameReader, decode_response, encode_request, frame
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body, Versions
from pykraft.rpc import api_versions, codec
from pykraft.rpc.codec import Answer
from pykraft.rpc.context import RpcContext
from pykraft.rpc.fetch_template import AnswerReader, RequestWriter
from pykraft.types import Buffer
from pykraft.value import value

NEGOTIATION_VERSION: Final = 3
"""A version of ApiVersions that every Kafka with KRaft supports, so no second attempt is needed."""
FIRST_ANSWER_SIZE_BYTES_MAX: Final = 64 * 1024
"""Largest answer to ApiVersions, which comes before we know anything about the other end."""
ANSWER_SIZE_BYTES_MAX: Final = 104_857_600
"""Largest answer after it."""


@value(frozen=True, slots=True)
class _Awaited:
    correlation_id: int
    api_key: ApiKey
    version: int


class DialedConnection:
    """Create it when dialing begins, and send the frame of `negotiate` when the connection is established."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._frames = FrameReader(FIRST_ANSWER_SIZE_BYTES_MAX)
        self._next_id = 0
        self._awaited: _Awaited | None = None
        self._versions: dict[int, Versions] | None = None
        self._common_versions: dict[ApiKey, int] = {}
        self._fetches = RequestWriter(client_id)
        self._fetched = AnswerReader()

    @property
    def is_negotiated(self) -> bool:
        """True once the other end has told its versions."""
        return self._versions is not None

    @property
    def is_ready(self) -> bool:
        """True when a request may be sent now."""
        return self._versions is not None and self._awaited is None

    def offers(self, message: Request) -> bool:
        """True when the other end supports the API of this request, in any version."""
        return self.offers_key(codec.api_key_of(message))

    def offers_key(self, api_key: ApiKey) -> bool:
        return self._versions is not None and api_key in self._versions

    def version_of(self, api_key: ApiKey) -> int:
        """The newest version of an API that both ends support. Errors: ProtocolError (UNSUPPORTED_VERSION)."""
        assert self._versions is not None, "the versions are negotiated first"
        version = self._common_versions.get(api_key)
        if version is None:
            version = self._common_versions[api_key] = api_versions.common_version(api_key, self._versions)
        return version

    def negotiate(self) -> list[Buffer]:
        """The first frame, to be sent when the connection is established."""
        assert self._versions is None
        return self._request(ApiKey.API_VERSIONS, NEGOTIATION_VERSION, api_versions.request_to_wire(__version__))

    def ask(self, message: Request, context: RpcContext) -> list[Buffer]:
        """The frame of a request, in the newest version that both ends support; its answer is awaited from now on.

        Errors: ProtocolError (UNSUPPORTED_VERSION) when there is no such version, or it cannot express the request,
        such as a pre-vote below Vote 2 (KIP-996). Nothing is awaited then.
        """
        api_key = codec.api_key_of(message)
        version = self.version_of(api_key)
        if isinstance(message, FetchRequest):
            return self._send(api_key, version, self._fetches.write(message, version, self._next_id, context))
        return self._request(api_key, version, codec.QUESTIONS[api_key].request_to_wire(message, version, context))

    def ask_body(self, api_key: ApiKey, body: Body) -> list[Buffer]:
        """As `ask`, for a request that is not part of the quorum's protocol, as a wire body."""
        return self._request(api_key, self.version_of(api_key), body)

    def received(self, data: bytes) -> Buffer | None:
        """The awaited answer's frame, when these bytes of the stream complete it. For owners without frames.

        Errors: ProtocolError for bytes that are not a frame, a frame above the bound, and a second frame.
        """
        self._frames.put(data)
        return self._whole()

    def room(self) -> memoryview | None:
        """Where the next bytes of the stream belong, as `FrameReader.room`; None if `received` takes them."""
        return self._frames.room()

    def filled(self, size_bytes: int) -> Buffer | None:
        """As `received`, for bytes that are in the `room`."""
        self._frames.filled(size_bytes)
        return self._whole()

    def _whole(self) -> Buffer | None:
        found = self._frames.take()
        # One request at a time, so a second frame answers nothing.
        if found is not None and self._frames.take() is not None:
            raise ProtocolError("more than one answer to one request")
        return found

    def negotiated(self, data: Buffer) -> None:
        """Read the answer to `negotiate`. Errors: as `answered`, and when the other end answers with an error."""
        self._versions = api_versions.response_from_wire(self.answered_body(data))
        # Only a node that speaks Kafka's protocol may send large frames.
        self._frames.size_bytes_max = ANSWER_SIZE_BYTES_MAX

    def answered(self, data: Buffer, context: RpcContext) -> Answer:
        """Read the answer to `ask`.

        Errors: ProtocolError when it answers nothing or is unreadable: the connection must be closed.
        """
        awaited = self._take_awaited()
        answer = self._decode(awaited, data, context)
        _check_id(answer.correlation_id, awaited)
        return answer

    def answered_body(self, data: Buffer) -> Body:
        """Read the answer to `ask_body`. Errors: as `answered`."""
        awaited = self._take_awaited()
        correlation_id, body = decode_response(awaited.api_key, awaited.version, data)
        _check_id(correlation_id, awaited)
        return body

    def _request(self, api_key: ApiKey, version: int, body: Body) -> list[Buffer]:
        return self._send(api_key, version, encode_request(api_key, version, self._next_id, self._client_id, body))

    def _send(self, api_key: ApiKey, version: int, encoded: list[Buffer]) -> list[Buffer]:
        assert self._awaited is None, "one request at a time"
        request = frame(encoded)
        self._awaited = _Awaited(self._next_id, api_key, version)
        self._next_id = (self._next_id + 1) % 2**31
        return request

    def _decode(self, awaited: _Awaited, data: Buffer, context: RpcContext) -> Answer:
        if awaited.api_key != ApiKey.FETCH:
            return codec.decode_answer(awaited.api_key, awaited.version, data, context)
        found = self._fetched.read(data)
        if found is not None:
            return Answer(*found)
        answer = codec.decode_answer(awaited.api_key, awaited.version, data, context)
        self._fetched.missed(data, awaited.version, (answer.correlation_id, answer.message, answer.records), context)
        return answer

    def _take_awaited(self) -> _Awaited:
        awaited, self._awaited = self._awaited, None
        if awaited is None:
            raise ProtocolError("it sent a response that answers no request")
        return awaited


def _check_id(correlation_id: int, awaited: _Awaited) -> None:
    if correlation_id != awaited.correlation_id:
        raise ProtocolError(
            f"it answers request {correlation_id}, expected {awaited.correlation_id}", ErrorCode.INVALID_REQUEST
        )

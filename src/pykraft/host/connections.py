"""One connection that this node dialed: it negotiates versions first, then carries one request at a time.

It owns the wire's correlation ids, which start at 0 on every connection, and the versions that the peer supports.
Invariant: at most one request is unanswered, so each response must answer that one, or the connection is closed. It
builds and reads frames; the socket is elsewhere.

Source: KIP-35, KIP-511; Kafka's ``NetworkClient``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pykraft import __version__
from pykraft.core.messages import Request
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import decode_response, encode_request
from pykraft.protocol.frame import frame
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Versions
from pykraft.rpc import api_versions, codec
from pykraft.rpc.codec import Answer
from pykraft.rpc.context import RpcContext
from pykraft.types import Buffer, Endpoint

NEGOTIATION_VERSION: Final = 3
"""A version of ApiVersions that every Kafka with KRaft supports, so no second attempt is needed."""


@dataclass(frozen=True, slots=True)
class _Awaited:
    wire_id: int
    api_key: ApiKey
    version: int


class DialedConnection:
    """Created when dialing begins; `negotiate` makes the first frame."""

    def __init__(
        self, connection: ConnectionId, endpoint: Endpoint, *, client_id: str, context: RpcContext, begun_ms: int
    ) -> None:
        self.id = connection
        self.endpoint = endpoint
        self.begun_ms = begun_ms
        self._client_id = client_id
        self._context = context
        self._next_wire_id = 0
        self._awaited: _Awaited | None = None
        self._versions: dict[int, Versions] | None = None

    @property
    def is_negotiated(self) -> bool:
        """True once the peer has told its versions."""
        return self._versions is not None

    @property
    def is_ready(self) -> bool:
        """True when a request may be sent now."""
        return self._versions is not None and self._awaited is None

    def negotiate(self) -> list[Buffer]:
        """The first frame, to be sent when the connection is established."""
        assert not self.is_negotiated
        assert self._awaited is None
        body = api_versions.request_to_wire(__version__)
        wire_id = self._await(ApiKey.API_VERSIONS, NEGOTIATION_VERSION)
        return frame(encode_request(ApiKey.API_VERSIONS, NEGOTIATION_VERSION, wire_id, self._client_id, body))

    def ask(self, message: Request) -> list[Buffer]:
        """The frame of a request, in the newest version that both ends support; its response is awaited from now on.

        Errors: ProtocolError (UNSUPPORTED_VERSION) when there is no such version, or it cannot express the request,
        such as a pre-vote below Vote 2 (KIP-996). Nothing is awaited then.
        """
        assert self._versions is not None
        assert self._awaited is None
        api_key = codec.api_key_of(message)
        version = api_versions.common_version(api_key, self._versions)
        parts = frame(codec.encode_request(message, version, self._next_wire_id, self._client_id, self._context))
        self._await(api_key, version)
        return parts

    def answered(self, data: Buffer) -> Answer | None:
        """Read the awaited response; None when it completed the negotiation.

        Errors: ProtocolError when it answers nothing or is unreadable: the connection must be closed.
        """
        awaited, self._awaited = self._awaited, None
        if awaited is None:
            raise ProtocolError("it sent a response that answers no request")
        if self._versions is None:
            wire_id, body = decode_response(awaited.api_key, awaited.version, data)
            _check_id(wire_id, awaited)
            self._versions = api_versions.response_from_wire(body)
            return None
        answer = codec.decode_answer(awaited.api_key, awaited.version, data, self._context)
        _check_id(answer.correlation_id, awaited)
        return answer

    def _await(self, api_key: ApiKey, version: int) -> int:
        """Note a request that is sent now; returns its correlation id."""
        wire_id = self._next_wire_id
        self._awaited = _Awaited(wire_id, api_key, version)
        self._next_wire_id = (wire_id + 1) % 2**31
        return wire_id


def _check_id(wire_id: int, awaited: _Awaited) -> None:
    if wire_id != awaited.wire_id:
        raise ProtocolError(f"it answers request {wire_id}, expected {awaited.wire_id}", ErrorCode.INVALID_REQUEST)

"""The answering end of SASL on one connection: which requests it may send before it is authenticated, and again later.

First comes ApiVersions, if the client likes. SaslHandshake names the mechanism: after version 0 the mechanism's
messages are bare frames, after version 1 each is in SaslAuthenticate. When the client has proven its name, it may ask
for everything else until its session ends. Before that it may begin again with SaslHandshake, by the same mechanism and
for the same name, at most once a second. A wrong proof is refused a little later, so that guessing is slow. Invariant:
nothing but ApiVersions is passed on before the name is proven, and nothing after the end of the session.

Source: KIP-43, KIP-152, KIP-255, KIP-306 (the delay), KIP-368; Kafka's ``SaslServerAuthenticator``, ``KafkaChannel``,
``SocketServer.Processor.processCompletedReceives``.
"""

from __future__ import annotations

import struct
from math import inf
from typing import Final

from pykraft.errors import AuthenticationError, ErrorCode, ProtocolError
from pykraft.protocol.api import RequestHeader, decode_request_body, decode_request_header, encode_response, frame
from pykraft.protocol.messages import SASL_KEYS, ApiKey
from pykraft.protocol.schema import Body
from pykraft.security.exchanges import Answering
from pykraft.security.principal import ANONYMOUS, Principal
from pykraft.security.sasl import Mechanisms
from pykraft.types import Buffer

FRAMES_MAX: Final = 16
"""Requests of one authentication; the longest mechanism takes five."""
AGAIN_S_MIN: Final = 1.0
"""Shortest time between two authentications of one connection."""
_KEY: Final = struct.Struct(">h")


class SaslRefusal(ProtocolError):
    """The connection must be closed, after ``delay_s``, when these bytes were sent; nothing more is read from it."""

    def __init__(self, message: str, answer: list[Buffer] | None = None, *, delay_s: float = 0.0) -> None:
        super().__init__(message)
        self.answer: list[Buffer] = answer or []
        self.delay_s = delay_s


class SaslServer:
    """Create it when the connection is accepted, and give it each frame."""

    def __init__(self, mechanisms: Mechanisms) -> None:
        self._mechanisms = mechanisms
        self.principal: Principal = ANONYMOUS
        """Who has authenticated, also while it does so again."""
        self._mechanism = ""
        self._exchange: Answering | None = None
        self._refused = ""
        """What SaslAuthenticate is answered with, after a handshake that it is too late to refuse."""
        self._is_bare = False
        self._frames = 0
        self._began_s = -inf
        self._expires_s = inf

    @property
    def is_done(self) -> bool:
        """True while the connection may send all requests."""
        return self.principal != ANONYMOUS and self._exchange is None and not self._refused

    def receive(self, data: Buffer, now_s: float) -> list[Buffer] | None:
        """The answer to a frame, to be sent; None for one that is not about authentication: the node answers that.

        Before `is_done` that can only be ApiVersions. ``now_s`` is a time of any one clock.

        Errors: SaslRefusal.
        """
        key = _KEY.unpack_from(data)[0] if len(data) >= 2 else -1
        if self.is_done and key not in SASL_KEYS:
            if now_s > self._expires_s:
                raise SaslRefusal("its session has ended, and it has not authenticated again")
            return None
        self._frames += 1
        if self._frames > FRAMES_MAX:
            raise SaslRefusal(f"more than {FRAMES_MAX} requests for one authentication")
        try:
            return self._receive(bytes(data), now_s)
        except AuthenticationError as error:
            raise SaslRefusal(str(error), delay_s=self._mechanisms.refusal_delay_s) from error
        except SaslRefusal:
            raise
        except ProtocolError as error:
            raise SaslRefusal(f"{error}, before it has authenticated") from error

    def _receive(self, data: bytes, now_s: float) -> list[Buffer] | None:
        if self._exchange is not None and self._is_bare:
            return frame([self._step(self._exchange, data, now_s)])
        header = decode_request_header(data)
        if header.api_key not in (*SASL_KEYS, ApiKey.API_VERSIONS):
            raise ProtocolError(f"it asks for API {header.api_key}")
        if header.api_key == ApiKey.API_VERSIONS:
            if self._exchange is not None or self._refused:
                raise ProtocolError("it asks for ApiVersions within SASL")
            return None
        body = decode_request_body(header, data)
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            return self._on_handshake(header, body, now_s)
        return self._on_authenticate(header, body, now_s)

    def _on_handshake(self, header: RequestHeader, body: Body, now_s: float) -> list[Buffer]:
        mechanism, is_again = body["mechanism"], self.principal != ANONYMOUS
        if self._exchange is not None or self._refused or (is_again and now_s < self._began_s + AGAIN_S_MIN):
            return self._out_of_place(header)
        answer: Body = {"error_code": ErrorCode.NONE, "mechanisms": self._mechanisms.names}
        if mechanism not in self._mechanisms.names:
            answer["error_code"] = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            raise SaslRefusal(f"unsupported SASL mechanism {mechanism[:32]!r}", _answer(header, answer))
        if is_again and mechanism != self._mechanism:
            self._refused = (
                f"SASL mechanism '{mechanism}' requested by client is not supported for re-authentication of "
                f"mechanism '{self._mechanism}'"
            )
        else:
            self._mechanism, self._exchange = mechanism, self._mechanisms.begin(mechanism)
        self._began_s, self._is_bare = now_s, header.api_version == 0
        return _answer(header, answer)

    def _on_authenticate(self, header: RequestHeader, body: Body, now_s: float) -> list[Buffer]:
        exchange = self._exchange
        if self._refused:
            raise SaslRefusal(self._refused, _failed(header, self._refused))
        if exchange is None:
            return self._out_of_place(header)
        try:
            message = self._step(exchange, body["auth_bytes"], now_s)
        except AuthenticationError as error:
            again = "re-authentication" if self.principal != ANONYMOUS else "authentication"
            told = f"Authentication failed during {again} due to invalid credentials with SASL mechanism "
            answer = _failed(header, error.told or told + self._mechanism)
            raise SaslRefusal(str(error), answer, delay_s=self._mechanisms.refusal_delay_s) from error
        answered: Body = {"error_code": ErrorCode.NONE, "auth_bytes": message}
        if self.is_done and self._expires_s < inf:
            answered["session_lifetime_ms"] = max(1, int((self._expires_s - now_s) * 1_000))  # 0 would be: for ever
        return _answer(header, answered)

    def _step(self, exchange: Answering, message: bytes, now_s: float) -> bytes:
        """The mechanism's answer; with its last one, the client has proven its name. Errors: AuthenticationError."""
        answer, proven = exchange.answer(message), exchange.proven
        if proven is not None:
            principal = Principal(proven.name)
            if self.principal not in (ANONYMOUS, principal):
                told = f"Cannot change principals during re-authentication from {self.principal}: {principal}"
                raise AuthenticationError(told, told)
            self.principal, self._exchange, self._frames = principal, None, 0
            self._expires_s = now_s + min(proven.lifetime_s, self._mechanisms.lifetime_s(self._mechanism))
        return answer

    def _out_of_place(self, header: RequestHeader) -> list[Buffer]:
        """The answer to a request of SASL at a time when there is none. Errors: SaslRefusal before authentication."""
        body: Body = {"error_code": ErrorCode.ILLEGAL_SASL_STATE}
        if header.api_key == ApiKey.SASL_AUTHENTICATE and self.is_done:
            body["error_message"] = "SaslAuthenticate request received after successful authentication"
        answer = _answer(header, body)
        if not self.is_done:
            raise SaslRefusal(f"its request of API {header.api_key} is out of place within SASL", answer)
        return answer


def _failed(header: RequestHeader, told: str) -> list[Buffer]:
    return _answer(header, {"error_code": ErrorCode.SASL_AUTHENTICATION_FAILED, "error_message": told})


def _answer(header: RequestHeader, body: Body) -> list[Buffer]:
    return frame(encode_response(header.api_key, header.api_version, header.correlation_id, body))

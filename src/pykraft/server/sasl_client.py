"""The asking end of SASL on one connection: it authenticates at once, and again before the session ends.

SaslHandshake 1 and SaslAuthenticate 2 are sent without asking for versions: every Kafka with KRaft has them. Requests
that are to be sent when it is time to authenticate again wait until that is done; there must be none unanswered then,
as on each connection of ours. Invariant: the other end gets no secret before it names the mechanism.

Source: KIP-152, KIP-368; Kafka's ``SaslClientAuthenticator`` (the share of the session's time).
"""

from __future__ import annotations

import secrets
from math import inf
from typing import Final

from pykraft.errors import AuthenticationError, ErrorCode, error_name
from pykraft.protocol.api import decode_response, encode_request, frame
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.security.exchanges import Asking
from pykraft.security.sasl import SaslCredentials
from pykraft.types import Buffer

SHARE_MIN: Final = 0.85
SHARE_MAX: Final = 0.95
"""After which part of a session the client authenticates again: not all clients at the same time."""
_VERSIONS: Final = {ApiKey.SASL_HANDSHAKE: 1, ApiKey.SASL_AUTHENTICATE: 2}


class SaslClient:
    """Create it when the connection is established, and send what `begin` returns."""

    def __init__(self, credentials: SaslCredentials, client_id: str | None = None) -> None:
        self._credentials = credentials
        self._client_id = client_id
        self._exchange: Asking | None = None
        self._asked = ApiKey.SASL_HANDSHAKE
        self._due_s = inf
        self._waiting: list[Buffer] = []
        self.is_done = False
        """True once the other end has accepted what this one has proven."""

    def begin(self) -> list[Buffer]:
        """The first request."""
        self._exchange = self._credentials.begin()
        return self._request(ApiKey.SASL_HANDSHAKE, {"mechanism": self._credentials.mechanism})

    def outgoing(self, request: list[Buffer], now_s: float) -> list[Buffer]:
        """What to send now for this request: itself, or that which must come first."""
        if now_s < self._due_s:
            return request
        self._waiting, self._due_s = request, inf
        return self.begin()

    def receive(self, data: Buffer, now_s: float) -> list[Buffer] | None:
        """What to send after this answer, perhaps nothing; None if it is no answer of SASL.

        Errors: AuthenticationError, ProtocolError: the connection must be closed.
        """
        if self._exchange is None:
            return None
        body = decode_response(self._asked, _VERSIONS[self._asked], data)[1]
        self._check(body)
        if self._asked is ApiKey.SASL_HANDSHAKE:
            return self._request(ApiKey.SASL_AUTHENTICATE, {"auth_bytes": self._exchange.begin()})
        message = self._exchange.answer(body["auth_bytes"])
        if message is not None:
            return self._request(ApiKey.SASL_AUTHENTICATE, {"auth_bytes": message})
        lifetime_s = body["session_lifetime_ms"] / 1_000
        share = SHARE_MIN + (SHARE_MAX - SHARE_MIN) * secrets.randbelow(1_000) / 1_000
        self._exchange, self.is_done = None, True
        self._due_s = now_s + lifetime_s * share if lifetime_s > 0 else inf
        waiting, self._waiting = self._waiting, []
        return waiting

    def _check(self, body: Body) -> None:
        """Errors: AuthenticationError if the other end refuses."""
        code, mechanism = body["error_code"], self._credentials.mechanism
        if code == ErrorCode.NONE:
            return
        if code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            known = ", ".join(body["mechanisms"][:8])
            raise AuthenticationError(f"it does not accept SASL mechanism {mechanism}, but {known or 'none'}")
        told = body.get("error_message") or error_name(code)
        raise AuthenticationError(f"it refuses these credentials of {mechanism}: {told}")

    def _request(self, key: ApiKey, body: Body) -> list[Buffer]:
        self._asked = key
        return frame(encode_request(key, _VERSIONS[key], 0, self._client_id, body))

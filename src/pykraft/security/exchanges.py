"""The messages of PLAIN, SCRAM and OAUTHBEARER, at both ends: bytes in, bytes out, and who that was.

Each exchange is for one authentication. Invariants: an answering end has a name only after it has proven it; what the
other end hears of a refusal does not say whether there is such a user; no message and no secret is in an error.

Source: RFC 4616 (PLAIN), RFC 5802 and 7677 (SCRAM), RFC 7628 (OAUTHBEARER); Kafka's ``PlainSaslServer``,
``ScramSaslServer``, ``OAuthBearerSaslServer`` and ``OAuthBearerClientInitialResponse``.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Final, Protocol, TypeAlias

from pykraft.errors import AuthenticationError

Scram: TypeAlias = tuple[bytes, bytes, bytes, int]
"""What is kept of a password: salt, stored key, server key, iterations."""
ITERATIONS_MAX: Final = 131_072
"""More are not calculated for a server that asks for them: they take a twentieth of a second."""
_WRONG: Final = "Authentication failed: Invalid username or password"
_OTHER_IDENTITY: Final = "Authentication failed: Client requested an authorization id that is different from "
_INVALID_TOKEN: Final = '{"status":"invalid_token"}'  # noqa: S105 - a status
_BEARER: Final = re.compile(
    r"n,(?:a=(?P<identity>[^,\x00-\x20=]*))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)+)\x01"
)


@dataclass(frozen=True, slots=True)
class Proven:
    """A name, and for how many seconds that holds."""

    name: str
    lifetime_s: float = inf


class Answering(Protocol):
    """The end that asks for proof."""

    proven: Proven | None
    """None until the other end has proven who it is."""

    def answer(self, message: bytes) -> bytes:
        """The answer to a message. Errors: AuthenticationError."""


class Asking(Protocol):
    """The end that proves who it is."""

    def begin(self) -> bytes:
        """The first message. Errors: AuthenticationError if there is nothing to prove it with."""

    def answer(self, challenge: bytes) -> bytes | None:
        """The next message; None after the last one. Errors: AuthenticationError, also if the other end lies."""


class PlainAnswer:
    """PLAIN, for passwords by user."""

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = passwords
        self.proven: Proven | None = None

    def answer(self, message: bytes) -> bytes:
        try:
            identity, name, password = message.decode().split("\0")
        except ValueError as error:  # a UnicodeError is one
            raise AuthenticationError("an unreadable message of PLAIN") from error
        for text, what in ((name, "username"), (password, "password")):
            if not text:
                told = f"Authentication failed: {what} not specified"
                raise AuthenticationError(told, told)
        known = self._passwords.get(name)
        if not hmac.compare_digest((known or "").encode(), password.encode()) or known is None:
            raise AuthenticationError(_WRONG, _WRONG)
        if identity not in ("", name):
            raise AuthenticationError(told := f"{_OTHER_IDENTITY}username", told)
        self.proven = Proven(name)
        return b""


@dataclass(frozen=True, slots=True, repr=False)
class PlainAsk:
    """PLAIN, with this name and password."""

    name: str
    password: str

    def begin(self) -> bytes:
        return f"\0{self.name}\0{self.password}".encode()

    def answer(self, challenge: bytes) -> None:
        del challenge


class ScramAnswer:
    """SCRAM, for what is kept of the passwords, by user."""

    def __init__(self, mechanism: str, users: Mapping[str, Scram]) -> None:
        from scramp import ScramMechanism

        self._users = users
        self._name = ""
        self._server = ScramMechanism(mechanism).make_server(self._kept_of)
        self._is_first = True
        self.proven: Proven | None = None

    def answer(self, message: bytes) -> bytes:
        from scramp import ScramException

        try:
            text = message.decode()
            if self._is_first:
                self._is_first = False
                self._server.set_client_first(text)
                return str(self._server.get_server_first()).encode()
            self._server.set_client_final(text)
        except (ScramException, ValueError) as error:
            raise AuthenticationError("a wrong user or password, or an unreadable message of SCRAM") from error
        self.proven = Proven(self._name)
        return str(self._server.get_server_final()).encode()

    def _kept_of(self, name: str) -> Scram | None:
        self._name = name
        return self._users.get(name)


class ScramAsk:
    """SCRAM, with this name and password."""

    def __init__(self, mechanism: str, name: str, password: str) -> None:
        from scramp import ScramClient

        self._client = ScramClient([mechanism], name, password)
        self._is_first = True

    def begin(self) -> bytes:
        return str(self._client.get_client_first()).encode()

    def answer(self, challenge: bytes) -> bytes | None:
        from scramp import ScramException

        try:
            text = challenge.decode()
            if not self._is_first:
                self._client.set_server_final(text)
                return None
            self._is_first = False
            self._client.set_server_first(text)
            if int(self._client.iterations) > ITERATIONS_MAX:
                raise AuthenticationError(f"it asks for more than {ITERATIONS_MAX} iterations of SCRAM")
            return str(self._client.get_client_final()).encode()
        except (ScramException, ValueError) as error:
            raise AuthenticationError("the other end does not know the password itself") from error


class BearerAnswer:
    """OAUTHBEARER; ``validate`` returns whom a token names, or raises AuthenticationError."""

    def __init__(self, validate: Callable[[str], Proven]) -> None:
        self._validate = validate
        self._refused: AuthenticationError | None = None
        self.proven: Proven | None = None

    def answer(self, message: bytes) -> bytes:
        if self._refused is not None:  # the client has heard of it, and says so
            raise self._refused
        match = _BEARER.fullmatch(message.decode("latin-1"))
        pairs = {} if match is None else dict(pair.split("=", 1) for pair in match["pairs"].split("\1")[:-1])
        scheme, _, token = pairs.get("auth", "").partition(" ")
        if match is None or scheme.lower() != "bearer":
            raise AuthenticationError("an unreadable message of OAUTHBEARER")
        try:
            proven = self._validate(token.strip())
        except AuthenticationError as error:
            self._refused = AuthenticationError(str(error), _INVALID_TOKEN)
            return _INVALID_TOKEN.encode()
        if match["identity"] not in (None, "", proven.name):
            raise AuthenticationError(told := f"{_OTHER_IDENTITY}the token's principal name", told)
        self.proven = proven
        return b""


@dataclass(frozen=True, slots=True)
class BearerAsk:
    """OAUTHBEARER, with the token that ``read`` returns; it raises AuthenticationError."""

    read: Callable[[], str]

    def begin(self) -> bytes:
        return f"n,,\1auth=Bearer {self.read()}\1\1".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        # After a refusal the other end waits for this byte, and then says that it has failed.
        return b"\1" if challenge else None

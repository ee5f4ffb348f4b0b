"""What a listener accepts as proof, and what a node or client proves itself with, from a `Security`.

Names and passwords are in Kafka's ``sasl.jaas.config``: a login module and its options, ``org.apache.kafka.common.
security.plain.PlainLoginModule required username="a" password="b" user_a="b";``. Users of SCRAM, and the keys of
OAUTHBEARER's tokens, which are signed claims (JWT), are in files, which are read again when they have changed, as
certificates are. A token of one's own is read at each authentication, since it is short-lived.

Invariants: a property that is missing for a mechanism ends the start, with its name; of a token only a signature by a
key of the file counts, by the algorithm of that key, and one without expiry is refused; no error has a password or a
token in it.

Source: Kafka's ``SaslChannelBuilder``, ``LoginManager``, ``CredentialProvider``, ``JaasConfig``
(``java.io.StreamTokenizer``), ``BrokerJwtValidator``, ``JwksFileVerificationKeyResolver``, ``FileJwtRetriever``;
KIP-103, KIP-368, KIP-768, KIP-1139; RFC 7517, RFC 7519, RFC 8725.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from pykraft.errors import AuthenticationError, ConfigError
from pykraft.process.extras import imported_for
from pykraft.security import exchanges
from pykraft.security.files import FromFiles, read_bounded
from pykraft.security.settings import DIAL_REQUIRED, Security
from pykraft.security.users import USERS_FILE, ScramUsers, read_users, users_files

if TYPE_CHECKING:  # an extra
    from jwt import PyJWK

_PACKAGE: Final = "org.apache.kafka.common.security."
_MODULES: Final = {
    "PLAIN": f"{_PACKAGE}plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_PACKAGE}scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_PACKAGE}scram.ScramLoginModule",
    "OAUTHBEARER": f"{_PACKAGE}oauthbearer.OAuthBearerLoginModule",
}
_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_QUOTED: Final = r'"(?:[^"\\\n]|\\.)*"'
_OPTION: Final = re.compile(rf'\s*([\w.$-]+)\s*=\s*({_QUOTED}|[^\s"=;]+)')
_HEAD: Final = re.compile(r"\s*([\w.$]+)\s+(\w+)")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b", "a": "\a", "v": "\v"}
_JAAS: Final = "sasl.jaas.config"


def options_of(security: Security, mechanism: str) -> Mapping[str, str]:
    """The options of the login module for this mechanism; none if the property is absent.

    Errors: ConfigError, also for the login module of another mechanism.
    """
    name = security.key_of(mechanism, _JAAS)
    text = security.text(name)
    if not text:
        return {}
    head = _HEAD.match(text)
    if head is None or head[2].lower() not in _FLAGS:
        raise security.error(name, f"it begins with a login module, and one of {', '.join(_FLAGS)}")
    if head[1] != _MODULES[mechanism]:
        raise security.error(name, f"the login module for {mechanism} is {_MODULES[mechanism]}")
    options, at = dict[str, str](), head.end()
    while (match := _OPTION.match(text, at)) is not None:
        options[match[1]], at = _unquoted(match[2]), match.end()
    if text[at:].strip() != ";":
        raise security.error(name, 'one login module, then options as name="value", and a semicolon')
    return options


def _unquoted(text: str) -> str:
    if text[:1] != '"':
        return text
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text[1:-1])


OAUTHBEARER: Final = "OAUTHBEARER"
_KEYS: Final = "sasl.oauthbearer.jwks.endpoint.url"
_TOKEN: Final = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - a property's name
_KEY_TYPES: Final = ("RSA", "EC", "OKP")
"""Kinds of public keys."""
SIZE_BYTES_MAX: Final = 1024 * 1024
"""Largest file with keys, or with a token."""


class Validator:
    """Checks tokens by the keys of the file, as it was read."""

    def __init__(self, security: Security) -> None:
        """Errors: ConfigError; UsageError without PyJWT."""
        self._skew_s = int(security.of_mechanism(OAUTHBEARER, "sasl.oauthbearer.clock.skew.seconds") or 30)
        self._audience = _items(security, "sasl.oauthbearer.expected.audience")
        self._issuer = security.of_mechanism(OAUTHBEARER, "sasl.oauthbearer.expected.issuer")
        self._subject = security.of_mechanism(OAUTHBEARER, "sasl.oauthbearer.sub.claim.name") or "sub"
        self._scope_claim = security.of_mechanism(OAUTHBEARER, "sasl.oauthbearer.scope.claim.name") or "scope"
        self._scopes = frozenset(_items(security, "pykraft.oauthbearer.required.scope"))
        self._keys = _read_keys(security)

    def validate(self, token: str) -> exchanges.Proven:
        """Whom this token names, and for how long. Errors: AuthenticationError, with the reason."""
        import jwt

        try:
            wanted = jwt.get_unverified_header(token).get("kid")
            claims = self._claims(token, [key for key in self._keys if wanted in (None, key.key_id)])
        except (jwt.PyJWTError, ValueError) as error:
            raise AuthenticationError(f"a token is refused: {error}") from error
        name, scope = claims.get(self._subject), claims.get(self._scope_claim, "")
        if not isinstance(name, str) or not name.strip():
            raise AuthenticationError(f"a token is refused: its claim {self._subject} is no name")
        has = frozenset(scope.split() if isinstance(scope, str) else scope if isinstance(scope, list) else ())
        if not self._scopes <= has:
            raise AuthenticationError(f"a token is refused: its scope lacks {', '.join(sorted(self._scopes - has))}")
        return exchanges.Proven(name, max(0.0, int(claims["exp"]) - time.time()))

    def _claims(self, token: str, keys: Sequence[PyJWK]) -> dict[str, Any]:
        """The claims, if one of these keys has signed them. Errors: as PyJWT."""
        import jwt

        for key in keys:
            try:
                return dict(
                    jwt.decode(
                        token,
                        key,
                        algorithms=[key.algorithm_name],
                        audience=self._audience or None,
                        issuer=self._issuer or None,
                        leeway=self._skew_s,
                        options={"require": ["exp", "iat"]},
                    )
                )
            except (jwt.InvalidSignatureError, jwt.InvalidAlgorithmError):
                continue
        raise ValueError("none of the keys has signed it")


def keys_file(security: Security) -> Path:
    """The file with the keys. Errors: ConfigError."""
    return _path(security, _KEYS)


def token_file(security: Security) -> Path:
    """The file with the token of this end. Errors: ConfigError."""
    return _path(security, _TOKEN)


def read_token(path: Path) -> str:
    """The token in this file, without blanks around it. Errors: AuthenticationError."""
    try:
        text = read_bounded(path, SIZE_BYTES_MAX).decode("ascii").strip()
    except (OSError, ValueError) as error:
        raise AuthenticationError(f"the token in {path} cannot be read: {_reason(error)}") from error
    if not text:
        raise AuthenticationError(f"there is no token in {path}")
    return text


def _read_keys(security: Security) -> list[PyJWK]:
    name = security.key_of(OAUTHBEARER, _KEYS)
    with imported_for(f"property {name}:"):
        import jwt
        import jwt.algorithms

        if not jwt.algorithms.has_crypto:
            raise ModuleNotFoundError(name="cryptography")
    try:
        found = jwt.PyJWKSet.from_json(read_bounded(keys_file(security), SIZE_BYTES_MAX).decode()).keys
    except (OSError, ValueError, AttributeError, TypeError, jwt.PyJWTError) as error:
        raise security.error(name, f"it is no file with a set of public keys (JWKS): {_reason(error)}") from error
    keys = [key for key in found if key.key_type in _KEY_TYPES and key.public_key_use in (None, "sig")]
    if not keys:
        raise security.error(name, f"it has no public key of {', '.join(_KEY_TYPES)} for signatures")
    return keys


def _path(security: Security, name: str) -> Path:
    """Errors: ConfigError for anything but the URL of a file."""
    name = security.key_of(OAUTHBEARER, name)
    url = urlsplit(security.text(name))
    if url.scheme != "file" or url.netloc not in ("", "localhost") or not url.path.startswith("/"):
        raise security.error(name, "is required: the URL of a file, such as file:///etc/pykraft/keys.json")
    return Path(unquote(url.path))


def _reason(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _items(security: Security, name: str) -> list[str]:
    return [item.strip() for item in security.of_mechanism(OAUTHBEARER, name).split(",") if item.strip()]


class Mechanisms(FromFiles):
    """The mechanisms of a listener."""

    what = "users and keys"

    def __init__(self, security: Security, *, refusal_delay_s: float = 0.0) -> None:
        """Read the files. Errors: ConfigError that names the property; UsageError for a package that is missing."""
        self._security = security
        self.refusal_delay_s = refusal_delay_s
        """After how long a wrong proof is refused."""
        self.names = security.mechanisms
        files = users_files(security) | ({keys_file(security)} if OAUTHBEARER in self.names else set())
        self._made: Mapping[str, Callable[[], exchanges.Answering]] = {}
        super().__init__(sorted(files))

    def begin(self, mechanism: str) -> exchanges.Answering:
        """A new authentication by one of `names`."""
        return self._made[mechanism]()

    def lifetime_s(self, mechanism: str) -> float:
        """How long an authentication counts; no limit if none is configured."""
        given_ms = int(self._security.of_mechanism(mechanism, "connections.max.reauth.ms") or 0)
        return given_ms / 1_000 if given_ms else inf

    def make(self) -> None:
        self._made = {name: self._answering(name) for name in self.names}

    def _answering(self, mechanism: str) -> Callable[[], exchanges.Answering]:
        security = self._security
        options = options_of(security, mechanism)
        if mechanism == "PLAIN":
            passwords = {name.removeprefix("user_"): options[name] for name in options if name.startswith("user_")}
            if not passwords:
                name = security.key_of(mechanism, _JAAS)
                raise security.error(name, 'PLAIN needs users: user_alice="password" for each')
            return partial(exchanges.PlainAnswer, passwords)
        if mechanism == OAUTHBEARER:
            return partial(exchanges.BearerAnswer, Validator(security).validate)
        with imported_for(f"{mechanism}:"):
            import scramp  # noqa: F401 - whether it is there
        return partial(exchanges.ScramAnswer, mechanism, self._users(mechanism).get(mechanism, {}))

    def _users(self, mechanism: str) -> ScramUsers:
        name = self._security.key_of(mechanism, USERS_FILE)
        text = self._security.text(name)
        if not text:
            raise self._security.error(name, f"is required for {mechanism}: the file that `pykraft users` writes")
        try:
            return read_users(Path(text))
        except (OSError, ValueError) as error:
            raise self._security.error(name, f"cannot be used: {getattr(error, 'strerror', None) or error}") from error


class SaslCredentials:
    """What this end proves itself with, by `mechanism`."""

    def __init__(self, security: Security) -> None:
        """Errors: ConfigError that names the property; UsageError for a package that is missing."""
        self.mechanism = security.own_mechanism
        if not self.mechanism:
            raise ConfigError(DIAL_REQUIRED[0], "", DIAL_REQUIRED[1])
        options = options_of(security, self.mechanism)
        if self.mechanism == OAUTHBEARER:
            path = token_file(security)
            self.begin: Callable[[], exchanges.Asking] = lambda: exchanges.BearerAsk(lambda: read_token(path))
            return
        name, password = options.get("username", ""), options.get("password", "")
        if not name or not password:
            key = security.key_of(self.mechanism, _JAAS)
            raise security.error(key, f'{self.mechanism} needs username="…" and password="…"')
        if self.mechanism == "PLAIN":
            self.begin = lambda: exchanges.PlainAsk(name, password)
            return
        with imported_for(f"{self.mechanism}:"):
            import scramp
        try:
            exchanges.ScramAsk(self.mechanism, name, password)
        except scramp.ScramException as error:
            raise security.error(_JAAS, f"SCRAM cannot have this name or password: {error}") from error
        self.begin = lambda: exchanges.ScramAsk(self.mechanism, name, password)

"""A client of the key-value service that knows several nodes, without an event loop, for commands; and its lease.

It asks one node, and the next one when a node refuses the connection or says that nothing was changed. Invariants: a
change is sent again only if it was certainly not applied, or if it does no harm (to keep a lease, to wait for a lock);
otherwise the caller gets OutcomeUnknownError. The holder of a lease hears that it is lost before it can end, unless the
program did not run meanwhile: it gives the lease up after `HELD_SHARE` of its time to live without an answer. No
message has a user, a password or a token.

Source: ours (ADR 085, ADR 087, ADR 090); RFC 7617 (user and password), RFC 6750 §2.1 (token).
"""

import base64
import http.client
import json
import re
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Self
from urllib.parse import unquote, urlsplit

from pykraft import errors
from pykraft.kv.json_form import NOT_APPLIED
from pykraft.recipes.key_value_store import HELD_SHARE, KEEPS
from pykraft.security.contexts import Side, TlsContext
from pykraft.security.settings import IN_THE_CLEAR, Security
from pykraft.server.binding import in_words

URLS_MAX: Final = 15
ANSWER_SIZE_BYTES_MAX: Final = 1 << 24
LINE_SIZE_BYTES_MAX: Final = 1 << 19
CONNECT_TIMEOUT_S: Final = 2.0
SILENCE_S_MAX: Final = 15.0
"""A watch of a node that lives has a line every five seconds."""
ASK_TIMEOUT_S: Final = 5.0
"""How long one node may try before the next one is asked."""
ANSWER_S: Final = 1.0
"""How much later its answer may come."""
PAUSE_S: Final = 0.1
TOKEN: Final = re.compile(r"[!-~]+")
DENIED: Final = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.PROXY_AUTHENTICATION_REQUIRED})


class _TryNextError(Exception):
    """This node cannot answer, and has certainly changed nothing."""


class KeyValueClient:
    """Asks the nodes at these URLs; ``timeout_s`` is for each call, all tries included."""

    def __init__(
        self, urls: Sequence[str], *, timeout_s: float, token: str | None = None, security: Security = IN_THE_CLEAR
    ) -> None:
        """A user and password in a URL go before ``token``; ``security`` has whom to trust at https, and a certificate.

        Errors: UsageError for what is not a URL, or not a token; ConfigError for ``security``.
        """
        if token is not None and not TOKEN.fullmatch(token):
            raise errors.UsageError("the token is empty, or has characters that no header may have")
        has_password = any("@" in url for url in urls)
        self._nodes = [
            # A password with a comma has made two of one URL, so no part of the list is shown.
            _node(url, token, f"its number {number}" if has_password else repr(url))
            for number, url in enumerate(dict.fromkeys(urls), start=1)
        ]
        if not 1 <= len(self._nodes) <= URLS_MAX:
            raise errors.UsageError(f"--url: give 1 to {URLS_MAX} addresses, as http://host:port,…")
        self._tls = TlsContext(security, Side.CLIENT).current if security.uses_tls else None
        if self._tls is not None and not all(node.is_tls for node in self._nodes):
            raise errors.UsageError("--url: with security.protocol=SSL each node is https://…, not http://…")
        self._timeout_s = timeout_s
        self._at = 0

    def ask(self, path: str, body: dict[str, Any], *, changes: bool, timeout_s: float | None = None) -> dict[str, Any]:
        """The answer to one call; ``changes`` says whether it may change the store.

        Errors: OutcomeUnknownError; QuorumUnavailableError when no node could answer: nothing was changed;
        CommandRejectedError; UsageError for a request that every node refuses.
        """
        deadline_s = time.monotonic() + (self._timeout_s if timeout_s is None else timeout_s)
        while True:
            left_s = deadline_s - time.monotonic()
            try:
                return self._ask_one(path, body, changes=changes, timeout_s=max(left_s, 0.001))
            except _TryNextError as error:
                self._next(error, deadline_s)

    def watch(self, wanted: dict[str, Any], from_revision: int | None) -> Iterator[dict[str, Any]]:
        """The changes of a range, endless: it goes on at the next node where one ends, with the next change.

        Errors: CompactedError; UsageError; QuorumUnavailableError when no node answers within the timeout.
        """
        # Changes of one revision come together, and may be cut off in the middle: those of the last one are counted.
        seen = skip = 0
        while True:
            deadline_s = time.monotonic() + self._timeout_s
            try:
                for line in self._lines(wanted, from_revision):
                    deadline_s = time.monotonic() + self._timeout_s
                    if "from_revision" in line:
                        # Known now: a watch that ends before its first change begins again at the same place.
                        from_revision, skip = line["from_revision"], seen
                    elif "revision" in line:
                        if line["revision"] != from_revision:
                            from_revision, seen, skip = line["revision"], 0, 0
                        if skip:
                            skip -= 1
                            continue
                        seen += 1
                        yield line
            except _TryNextError as error:
                self._next(error, deadline_s)

    def _next(self, error: _TryNextError, deadline_s: float) -> None:
        self._at = (self._at + 1) % len(self._nodes)
        if time.monotonic() + PAUSE_S >= deadline_s:
            raise errors.QuorumUnavailableError(f"no node answered in time; the last one: {error}") from error
        if self._at == 0:
            time.sleep(PAUSE_S)

    def _ask_one(self, path: str, body: dict[str, Any], *, changes: bool, timeout_s: float) -> dict[str, Any]:
        """Errors: _TryNextError and those of `ask`."""
        deadline_s = time.monotonic() + timeout_s
        connection, name = self._connected(timeout_s)
        with closing(connection):
            left_s = max(deadline_s - time.monotonic(), 0.001)
            # The node gets a little less, so that it is the one to say what is known.
            tries_s = min(left_s * 0.8, ASK_TIMEOUT_S)
            body = {"timeout_ms": max(1, int(tries_s * 1_000)), **body}
            try:
                _patience(connection, min(left_s, tries_s + ANSWER_S) + body.get("wait_ms", 0) / 1_000)
                status, answer = _exchange(connection, path, body, self._nodes[self._at].headers)
            except (OSError, http.client.HTTPException) as error:
                told = f"{name}: {_reason(error)}"
                if changes:
                    raise errors.OutcomeUnknownError(f"{told}: the change may be applied, or not") from error
                raise _TryNextError(told) from error
        if status == HTTPStatus.OK and answer is not None:
            return answer
        raise _error_of(status, answer, name, changes=changes)

    def _lines(self, wanted: dict[str, Any], from_revision: int | None) -> Iterator[dict[str, Any]]:
        """The lines of one watch at one node; it never returns. Errors: _TryNextError and those of `watch`."""
        connection, name = self._connected(self._timeout_s)
        with closing(connection):
            try:
                _patience(connection, SILENCE_S_MAX)
                data = json.dumps({**wanted, "from_revision": from_revision}).encode()
                connection.request("POST", "/v1/watch", data, self._nodes[self._at].headers)
                with closing(connection.getresponse()) as response:
                    if response.status != HTTPStatus.OK:
                        answer = _object(response.read(LINE_SIZE_BYTES_MAX))
                        raise _error_of(response.status, answer, name, changes=False)
                    while line := response.readline(LINE_SIZE_BYTES_MAX):
                        found = _object(line)
                        if found is None or "error" in found:
                            # The node ends, or the changes are compacted.
                            raise _error_of(_status_of(found), found, name, changes=False)
                        yield found
            except (OSError, http.client.HTTPException) as error:
                raise _TryNextError(f"{name}: {_reason(error)}") from error
        raise _TryNextError(f"{name}: the connection was closed")

    def _connected(self, timeout_s: float) -> tuple[http.client.HTTPConnection, str]:
        """A connection to the current node. Errors: _TryNextError."""
        is_tls, host, port, _ = self._nodes[self._at]
        wait_s = min(CONNECT_TIMEOUT_S, timeout_s)
        connection: http.client.HTTPConnection
        if is_tls:
            connection = http.client.HTTPSConnection(host, port, timeout=wait_s, context=self._tls)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=wait_s)
        try:
            connection.connect()
        except (OSError, UnicodeError) as error:
            connection.close()
            raise _TryNextError(f"{host}:{port}: {_reason(error)}") from error
        return connection, f"{host}:{port}"


class _NodeUrl(NamedTuple):
    is_tls: bool
    host: str
    port: int
    headers: dict[str, str]


def _node(url: str, token: str | None, shown: str) -> _NodeUrl:
    """``shown`` names it in messages. Errors: UsageError."""
    wrong = errors.UsageError(f"--url {shown}: a node is http://host:port, or https://user:password@host:port")
    try:
        found = urlsplit(url if "://" in url else f"http://{url}")
        port = found.port
    except ValueError:
        raise wrong from None
    is_plain = not (found.query or found.fragment or found.path.strip("/"))
    if found.scheme not in {"http", "https"} or not found.hostname or not is_plain or port == 0:
        raise wrong
    is_tls = found.scheme == "https"
    headers = {"Content-Type": "application/json"}
    if found.username is not None:
        user = f"{unquote(found.username)}:{unquote(found.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
    elif token is not None:
        headers["Authorization"] = f"Bearer {token}"
    return _NodeUrl(is_tls, found.hostname, port or (443 if is_tls else 80), headers)


def _patience(connection: http.client.HTTPConnection, timeout_s: float) -> None:
    assert connection.sock is not None, "it is connected"
    connection.sock.settimeout(timeout_s)


def _exchange(
    connection: http.client.HTTPConnection, path: str, body: dict[str, Any], headers: dict[str, str]
) -> tuple[int, dict[str, Any] | None]:
    connection.request("POST", path, json.dumps(body).encode(), headers)
    with closing(connection.getresponse()) as response:
        return response.status, _object(response.read(ANSWER_SIZE_BYTES_MAX))


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _status_of(line: dict[str, Any] | None) -> int:
    code = (line or {}).get("error", {}).get("code")
    return HTTPStatus.GONE if code == "compacted" else HTTPStatus.SERVICE_UNAVAILABLE


def _error_of(status: int, answer: dict[str, Any] | None, name: str, *, changes: bool) -> Exception:
    error = (answer or {}).get("error")
    if not isinstance(error, dict) or "outcome" not in error:
        if status in DENIED:
            # A proxy says so before it asks the node: nothing was changed.
            text = f"{name}: HTTP status {status}: it demands other credentials"
            return errors.UsageError(f"{text}, a user and password in PYKRAFT_KV_URL or a token in PYKRAFT_KV_TOKEN")
        if changes:
            text = f"{name}: HTTP status {status} and no word of the change: it may be applied, or not"
            return errors.OutcomeUnknownError(text)
        return _TryNextError(f"{name}: HTTP status {status}: this is not a node with a key-value store")
    told = str(error.get("message"))
    known: errors.PykraftError
    match status:
        case HTTPStatus.GONE:
            known = errors.CompactedError(0, int(error.get("oldest_revision", 0)))
            known.args = (told,)
        case HTTPStatus.CONFLICT:
            known = errors.CommandRejectedError(told)
        case HTTPStatus.SERVICE_UNAVAILABLE:
            return _TryNextError(f"{name}: {told}")
        case _ if error.get("outcome") != NOT_APPLIED:
            return errors.OutcomeUnknownError(f"{name}: {told}") if changes else _TryNextError(f"{name}: {told}")
        case _:
            known = errors.UsageError(told)
    return known


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ssl.SSLError):
        return in_words(error)
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()


REVOKE_TIMEOUT_S: Final = 0.3
"""A command that a signal ends has half a second; if this one fails, the lease ends by itself."""
WAIT_MS_MAX: Final = 10_000
"""How long one request waits for a lock."""


class ClientLease:
    """A lease of this time to live, from ``with`` to the end of the block."""

    def __init__(self, client: KeyValueClient, ttl_ms: int) -> None:
        self._client = client
        self._ttl_ms = ttl_ms
        self._held_s = ttl_ms / 1_000 * HELD_SHARE
        self._kept_s = 0.0
        self.lease = 0

    def __enter__(self) -> Self:
        self._kept_s = time.monotonic()
        self.lease = self._client.ask("/v1/lease/grant", {"ttl_ms": self._ttl_ms}, changes=True)["lease"]
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(errors.PykraftError):
            self._client.ask("/v1/lease/revoke", {"lease": self.lease}, changes=True, timeout_s=REVOKE_TIMEOUT_S)

    @property
    def pause_s(self) -> float:
        """How long until the lease should be kept."""
        return max(0.0, self._kept_s + self._held_s / KEEPS - time.monotonic())

    def keep(self) -> None:
        """Keep the lease if it is time. Errors: LeaseLostError."""
        if self.pause_s:
            return
        asked_s = time.monotonic()
        left_s = self._kept_s + self._held_s - asked_s
        try:
            if left_s > 0:
                wanted = {"lease": self.lease}
                # To keep it twice does no harm, so this is asked as often as there is time.
                self._client.ask("/v1/lease/keep", wanted, changes=False, timeout_s=min(left_s, self._held_s / KEEPS))
                self._kept_s = asked_s
        except errors.CommandRejectedError as error:
            raise errors.LeaseLostError(str(error)) from error
        except errors.PykraftError as error:
            if time.monotonic() >= self._kept_s + self._held_s:
                raise errors.LeaseLostError(
                    f"lease {self.lease} of {self._ttl_ms} ms could not be kept: {error}"
                ) from error
            return
        if left_s <= 0:
            raise errors.LeaseLostError(f"lease {self.lease} of {self._ttl_ms} ms could not be kept in time")

    def lock(self, name: str, holder: str, timeout_s: float) -> dict[str, Any]:
        """Wait for this lock; returns its place, with the fencing token.

        Errors: LeaseLostError; QuorumUnavailableError when the time is over; those of `KeyValueClient.ask`.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            self.keep()
            wait_ms = int(max(0.0, min(self.pause_s, deadline_s - time.monotonic())) * 1_000)
            wanted = {"name": name, "lease": self.lease, "holder": holder, "wait_ms": min(wait_ms, WAIT_MS_MAX)}
            # Whoever asks again with the same lease has the same place, so an unknown outcome does no harm.
            place = self._client.ask("/v1/lock", wanted, changes=False, timeout_s=self._held_s / KEEPS)
            if place["held"]:
                self.keep()
                return place
            if time.monotonic() >= deadline_s:
                ahead = place["ahead"]
                raise errors.QuorumUnavailableError(f"lock {name!r} was not free within {timeout_s:g} s: {ahead} ahead")

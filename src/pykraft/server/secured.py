"""TLS and SASL of a node's connections: handshakes of those that connect, and files that are read again.

A connection becomes a link when its handshake is done. Until then these rules hold, so that a flood of handshakes costs
little of the loop, and leaves the quorum's own links theirs:

1. A handshake has a deadline of `HANDSHAKE_S_MAX`.
2. An address is known if a certificate of it was verified, in either direction. All others are strangers, and may begin
   so many handshakes a second: each address by itself, and all together. More are closed at once.
3. A listening socket has at most `HANDSHAKES_MAX` of known addresses at a time, and as many of strangers. One more ends
   the oldest of its kind: a handshake takes milliseconds, so that one has stalled, or waits for its refusal.
4. An endpoint that refuses handshakes of this node is dialed less often, down to once in `PAUSE_S_MAX`.

Invariants: nothing that the other end sends before that reaches the node; each new connection, in both directions, uses
the newest certificates and users that could be read; without TLS and SASL there is nothing of all this.

Source: Kafka's ``SslTransportLayer``, ``SslFactory``, ``reconnect.backoff.ms``, and ``ConnectionQuotas`` (KIP-612:
rates of connections by address and in all; the numbers are ours); ``asyncio.loop.connect_accepted_socket``.
"""

import asyncio
import errno
import logging
import socket
import ssl
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from ipaddress import ip_network
from math import inf, nan
from pathlib import Path
from typing import Any, Final, TypeVar

from pykraft.config import LOOPBACK, NodeConfig
from pykraft.security.acl_file import AclFile
from pykraft.security.acls import Authorizer
from pykraft.security.contexts import Side, TlsContext, refusal
from pykraft.security.files import FileReport, FileState, FromFiles
from pykraft.security.principal import ANONYMOUS, Principal, PrincipalMapping
from pykraft.security.sasl import Mechanisms, SaslCredentials
from pykraft.security.settings import HTTP_NAMES, MAPPING_RULES_KEY, Security, SecurityProtocol
from pykraft.server.authentication import Authentication
from pykraft.server.binding import ACCEPTS_PER_TURN, TLS_CLOSE_S_MAX, in_words
from pykraft.server.clock import TokenBucket
from pykraft.types import Endpoint

HANDSHAKES_MAX: Final = 64
"""Handshakes of one listening socket at a time, of known addresses and of strangers each."""
STRANGERS_PER_S: Final = 100.0
"""Handshakes of strangers that a node begins in a second; one costs about a millisecond of the loop."""
STRANGERS_AT_ONCE: Final = 200.0
ADDRESS_PER_S: Final = 20.0
"""The same for each address of them; of IPv6 for each network of 64 bits, which one machine may have for itself."""
ADDRESS_AT_ONCE: Final = 100.0
ADDRESSES_MAX: Final = 10_000
"""Strangers that are remembered; the longest silent one is forgotten."""
KNOWN_MAX: Final = 1_000
PAUSE_S: Final = 0.05
"""Pause after a refused handshake; it doubles with each further one, as ``reconnect.backoff.ms``."""
PAUSE_S_MAX: Final = 1.0
_DOUBLINGS_MAX: Final = 16
HANDSHAKE_S_MAX: Final = 10.0
"""How long a handshake may take."""
REFRESH_S: Final = 5.0
"""How often it is checked whether files with certificates have changed."""
SSL: Final = SecurityProtocol.SSL
_PAUSE_S: Final = 1.0
"""Pause after the system could not accept a connection, as asyncio makes it."""
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
DAY_S: Final = 86_400
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

logger = logging.getLogger("pykraft")


class Addresses:
    """Which addresses are known, and how many handshakes strangers may begin: rule 2."""

    def __init__(self) -> None:
        self._known: dict[str, None] = {}
        self._strangers: dict[str, TokenBucket] = {}
        self._all = TokenBucket(STRANGERS_PER_S, STRANGERS_AT_ONCE, time.monotonic())

    def know(self, address: str) -> None:
        """A certificate of this address was verified."""
        _remember(self._known, _network(address), None, KNOWN_MAX)

    def is_known(self, address: str) -> bool:
        return _network(address) in self._known

    def may_begin(self, address: str) -> bool:
        """Whether a stranger at this address may begin a handshake; then it counts."""
        now_s, network = time.monotonic(), _network(address)
        bucket = self._strangers.pop(network, None) or TokenBucket(ADDRESS_PER_S, ADDRESS_AT_ONCE, now_s)
        _remember(self._strangers, network, bucket, ADDRESSES_MAX)
        # Its own first: an address that has used up its own takes nothing of the others.
        return bucket.take(now_s) and self._all.take(now_s)


def _remember(found: dict[K, V], key: K, value: V, most: int) -> None:
    """Add an entry as the newest, and forget the oldest ones beyond so many."""
    found.pop(key, None)
    found[key] = value
    if len(found) > most:
        del found[next(iter(found))]


def _network(address: str) -> str:
    return str(ip_network((address, 64), strict=False)) if ":" in address else address


class DialPauses:
    """How long endpoints that refuse handshakes are left alone: rule 4."""

    def __init__(self) -> None:
        self._refusals: dict[Endpoint, tuple[int, float]] = {}
        """Handshakes that were refused in a row, and when the last one was."""

    def pause_s(self, endpoint: Endpoint) -> float:
        """How long to wait before this endpoint is dialed."""
        if endpoint not in self._refusals:
            return 0.0
        count, refused_s = self._refusals[endpoint]
        return max(0.0, refused_s + min(PAUSE_S_MAX, PAUSE_S * 2.0**count) - time.monotonic())

    def refused(self, endpoint: Endpoint) -> None:
        """A handshake failed there, or its connection ended before anything was heard: TLS 1.3 refuses so late."""
        count, _ = self._refusals.get(endpoint, (-1, 0.0))
        _remember(self._refusals, endpoint, (min(count + 1, _DOUBLINGS_MAX), time.monotonic()), KNOWN_MAX)

    def heard(self, endpoint: Endpoint) -> None:
        """The other end took this node's certificate."""
        self._refusals.pop(endpoint, None)


class HandshakeServer:
    """Accepts on one listening socket, and makes links of those connections whose handshake succeeds."""

    def __init__(
        self,
        listening: socket.socket,
        tls: TlsContext | None,
        protocol: Callable[[], asyncio.BaseProtocol],
        *,
        failed: Callable[[str], None],
        addresses: Addresses | None = None,
    ) -> None:
        """``failed`` gets one line for each failed handshake; listening sockets of a node share ``addresses``."""
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._tls = tls
        self._protocol = protocol
        self._failed = failed
        self._addresses = addresses or Addresses()
        self.failed_count = 0
        self._known: dict[asyncio.Task[None], str] = {}
        self._strangers: dict[asyncio.Task[None], str] = {}
        """Those under way, oldest first, with the address of the other end."""
        self._pause: asyncio.TimerHandle | None = None
        listening.settimeout(0)
        self._resume()

    def close(self) -> None:
        """Accept no more, and end all handshakes; a second call does nothing."""
        if self._listening.fileno() < 0:
            return
        self._loop.remove_reader(self._listening)
        if self._pause is not None:
            self._pause.cancel()
        for task in (*self._known, *self._strangers):
            task.cancel()
        self._listening.close()

    def _resume(self) -> None:
        self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        """Begin one handshake: timers and the disk are served between two of them."""
        for _ in range(ACCEPTS_PER_TURN):
            try:
                accepted, place = self._listening.accept()
            except OSError as error:
                if error.errno in _EXHAUSTED:  # others are about one connection, which is gone already
                    self._loop.remove_reader(self._listening)
                    self._pause = self._loop.call_later(_PAUSE_S, self._resume)
                return
            accepted.settimeout(0)
            address = str(place[0])
            is_known = self._addresses.is_known(address)
            if is_known or self._addresses.may_begin(address):
                self._begin(accepted, address, self._known if is_known else self._strangers)
                return
            accepted.close()
            self._fail(f"{address}: too many handshakes in a second, of this address or of all")

    def _begin(self, accepted: socket.socket, address: str, others: dict[asyncio.Task[None], str]) -> None:
        if len(others) >= HANDSHAKES_MAX:  # rule 3
            oldest, its_address = next(iter(others.items()))
            del others[oldest]
            oldest.cancel()
            self._fail(f"{its_address}: {HANDSHAKES_MAX} others are under way, and this one is the oldest")
        task = self._loop.create_task(self._shake_hands(accepted, address))
        others[task] = address
        task.add_done_callback(partial(self._done, accepted, others))

    async def _shake_hands(self, accepted: socket.socket, address: str) -> None:
        protocol = self._protocol()
        options: dict[str, Any] = {}
        if self._tls is not None:
            options = {"ssl": self._tls.current, "ssl_handshake_timeout": HANDSHAKE_S_MAX}
            options["ssl_shutdown_timeout"] = TLS_CLOSE_S_MAX
        try:
            transport, _ = await self._loop.connect_accepted_socket(lambda: protocol, accepted, **options)
            if isinstance(protocol, Authentication):
                async with asyncio.timeout(HANDSHAKE_S_MAX):
                    await protocol.finished()
        except ConnectionResetError:
            pass  # it has gone away, as what only looks whether the port is open
        except TimeoutError as error:
            self._fail(f"{address}: {in_words(error) or f'SASL takes longer than {HANDSHAKE_S_MAX:g} seconds'}")
        except OSError as error:
            self._fail(f"{address}: {in_words(error)}")
        else:
            if isinstance(protocol, Authentication) or transport.get_extra_info("peercert"):
                self._addresses.know(address)

    def _fail(self, text: str) -> None:
        self.failed_count += 1
        self._failed(text)

    def _done(self, accepted: socket.socket, others: dict[asyncio.Task[None], str], task: asyncio.Task[None]) -> None:
        others.pop(task, None)
        if task.cancelled():  # perhaps before the loop had a transport that closes it
            accepted.close()


class NodeTls:
    """The certificates of a node: of its listeners, and of the connections that it dials."""

    def __init__(self, config: NodeConfig, others: Sequence[FromFiles] = ()) -> None:
        """``others`` are a program's, and are looked at with the node's.

        Errors: ConfigError for a store that cannot be used.
        """
        self._others = others
        between, by_name = config.default_listener, dict(config.security)
        self._served = {
            name: TlsContext(by_name[name], Side.SERVER, among_nodes=name == between)
            for name in by_name
            # An observer may not listen at all.
            if by_name[name].uses_tls and (len(config.listeners) or name in HTTP_NAMES)
        }
        delay_s = config.failed_authentication_delay_ms / 1_000
        self._mechanisms = {
            name: Mechanisms(by_name[name], refusal_delay_s=delay_s) for name in by_name if by_name[name].uses_sasl
        }
        security = config.security_between_nodes
        is_served = between in self._served
        self._dialed = TlsContext(security, Side.CLIENT, among_nodes=is_served) if security.uses_tls else None
        self.credentials = SaslCredentials(security) if security.uses_sasl else None
        """What this node proves itself with; None if it is not asked."""
        self._mappings: dict[str | None, PrincipalMapping] = {None: _mapping(security)}
        # Names of SASL are not those of certificates.
        self._mappings |= {name: _mapping(each) for name, each in config.security if each.protocol is SSL}
        settings = config.authorizer
        self.authorizer = None if settings is None else Authorizer(settings)
        self._acl_files: list[AclFile] = []
        if settings is not None and settings.acl_file is not None and self.authorizer is not None:
            self._acl_files = [AclFile(Path(settings.acl_file), self.authorizer)]
        self._refreshed_s = time.monotonic()
        self._under_way: asyncio.Future[list[FileReport]] | None = None
        self.addresses = Addresses()
        self.pauses = DialPauses()

    @property
    def for_dials(self) -> ssl.SSLContext | None:
        """The context of the next dial; None if it is made without TLS."""
        return None if self._dialed is None else self._dialed.current

    @property
    def proves_on_dials(self) -> bool:
        """Whether a dial has a handshake that the other end may refuse."""
        return self._dialed is not None or self.credentials is not None

    def for_listener(self, name: str) -> TlsContext | None:
        """The context of a listener; None for one without TLS."""
        return self._served.get(name)

    def asks_on(self, name: str) -> Mechanisms | None:
        """The mechanisms by which clients of a listener authenticate; None for one without SASL."""
        return self._mechanisms.get(name)

    def named(self, listener: str | None, principal: Principal) -> Principal | None:
        """The name that a listener has for the holder of a certificate, and None for one to whom it gives none.

        Whoever was dialed (None) keeps the name in the certificate then.
        """
        mapping = self._mappings.get(listener)
        found = principal if mapping is None else mapping.named(principal)
        return principal if found is None and listener is None else found

    def refresh_if_due(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read changed files again, on a thread: a file system may be slow."""
        if self.has_files and time.monotonic() >= self._refreshed_s + REFRESH_S:
            self._under_way = self.refresh_soon(loop)

    def refresh_soon(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[list[FileReport]]:
        """The same at once; the result is that of `refresh`."""
        self._refreshed_s = inf  # until it is done
        return loop.run_in_executor(None, self.refresh)

    def refresh(self) -> list[FileReport]:
        """Take up changed files, log what is new, and return what became of each."""
        try:
            return _each_once(each.take_up() for each in self._from_files)
        finally:
            self._refreshed_s = time.monotonic()

    @property
    def has_files(self) -> bool:
        """Whether anything was made from files."""
        return bool(self._from_files)

    @property
    def not_taken_up(self) -> list[FileReport]:
        """Changed files that cannot be used; it may be read on any thread."""
        reports = _each_once(each.report() for each in self._from_files)
        return [report for report in reports if report.state is FileState.REFUSED]

    def metrics(self, failed_handshakes: int) -> dict[str, float]:
        """What is about TLS; without a certificate it has no days left, NaN."""
        expires_s = min((context.expires_s for context in self._contexts), default=nan)
        return {
            "certificate-days-left": (expires_s - time.time()) / DAY_S,
            "failed-handshakes-total": failed_handshakes,
            "certificates-not-taken-up": sum(each.is_stale for each in (*self._proofs, *self._others)),
            "acls": 0 if self.authorizer is None else len(self.authorizer.acls),
            "acls-not-taken-up": sum(each.is_stale for each in self._acl_files),
        }

    @property
    def _from_files(self) -> Sequence[FromFiles]:
        return [each for each in (*self._proofs, *self._acl_files, *self._others) if each.files]

    @property
    def _proofs(self) -> Sequence[FromFiles]:
        return [*self._contexts, *self._mechanisms.values()]

    @property
    def _contexts(self) -> Sequence[TlsContext]:
        return [*self._served.values(), *([] if self._dialed is None else [self._dialed])]


def _each_once(reports: Iterable[FileReport]) -> list[FileReport]:
    """A listener and the dials may have the same files."""
    return list(dict.fromkeys(reports))


def _mapping(security: Security) -> PrincipalMapping:
    return PrincipalMapping(security.text(MAPPING_RULES_KEY))


def warn_of_host(config: NodeConfig) -> None:
    """Log a warning if the own certificate is not for the host at which other nodes dial this one."""
    name, security = config.default_listener, config.security_between_nodes
    at = config.advertised_listeners.get(name)
    problem = refusal(security, at.host) if at is not None and security.uses_tls else None
    if problem is not None:
        logger.warning(
            "%s", security.error("ssl.keystore.location", f"other nodes dial {at}, and refuse it: {problem}")
        )


def warn_of_plaintext(config: NodeConfig, authorizer: Authorizer | None = None) -> None:
    """Log a warning for each listener that others than this machine can reach in the clear."""
    rights = "whoever reaches it may do everything there"
    if authorizer is not None:
        rights = f"whoever reaches it is {ANONYMOUS}, who by the rules may {authorizer.rights_of(ANONYMOUS)}"
    for name, endpoint in config.listeners:
        is_loopback = endpoint.host in LOOPBACK or endpoint.host.startswith("127.")
        security = config.security_of(name)
        if security.uses_tls or is_loopback:
            continue
        if security.uses_sasl:
            logger.warning("listener %s at %s is SASL_PLAINTEXT: others on the way read and change all", name, endpoint)
        else:
            logger.warning("listener %s at %s is PLAINTEXT: %s", name, endpoint, rights)

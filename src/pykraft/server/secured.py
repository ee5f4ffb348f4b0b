"""TLS of a node's connections: handshakes of those that connect, and certificates that are read again.

A connection becomes a link when its handshake is done; until then it has a deadline, and a listener has at most
`HANDSHAKES_MAX` of them at a time. One more ends the oldest: a handshake takes milliseconds, so that one has stalled.
Invariants: nothing that the other end sends before that reaches the node; each new connection, in both directions, uses
the newest certificates that could be read; without TLS there is nothing of all this.

Source: Kafka's ``SslTransportLayer``, ``SslFactory``, and ``SocketServer`` (``connections.max.handshake`` is ours);
``asyncio.loop.connect_accepted_socket``.
"""

import asyncio
import errno
import logging
import socket
import ssl
import time
from collections.abc import Callable, Sequence
from functools import partial
from math import inf, nan
from typing import Final

from pykraft.config import LOOPBACK, NodeConfig
from pykraft.security.acls import AclFile, Authorizer
from pykraft.security.contexts import Side, TlsContext
from pykraft.security.principal import Principal, PrincipalMapping
from pykraft.security.settings import MAPPING_RULES_KEY, Security, SecurityProtocol
from pykraft.server.binding import TLS_CLOSE_S_MAX, in_words

HANDSHAKES_MAX: Final = 64
"""Handshakes of one listening socket at a time."""
HANDSHAKE_S_MAX: Final = 10.0
"""How long a handshake may take."""
REFRESH_S: Final = 5.0
"""How often it is checked whether files with certificates have changed."""
SSL: Final = SecurityProtocol.SSL
_PAUSE_S: Final = 1.0
"""Pause after the system could not accept a connection, as asyncio makes it."""
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
DAY_S: Final = 86_400

logger = logging.getLogger("pykraft")


class HandshakeServer:
    """Accepts on one listening socket, and makes links of those connections whose handshake succeeds."""

    def __init__(
        self,
        listening: socket.socket,
        tls: TlsContext,
        protocol: Callable[[], asyncio.BaseProtocol],
        *,
        failed: Callable[[str], None],
    ) -> None:
        """``failed`` gets one line for each failed handshake."""
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._tls = tls
        self._protocol = protocol
        self._failed = failed
        self.failed_count = 0
        self._handshakes: dict[asyncio.Task[None], str] = {}
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
        for task in self._handshakes:
            task.cancel()
        self._listening.close()

    def _resume(self) -> None:
        self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        """Begin one handshake: timers and the disk are served between two of them."""
        try:
            accepted, address = self._listening.accept()
        except OSError as error:
            if error.errno in _EXHAUSTED:  # others are about one connection, which is gone already
                self._loop.remove_reader(self._listening)
                self._pause = self._loop.call_later(_PAUSE_S, self._resume)
            return
        accepted.settimeout(0)
        if len(self._handshakes) >= HANDSHAKES_MAX:
            oldest, its_address = next(iter(self._handshakes.items()))
            del self._handshakes[oldest]
            oldest.cancel()
            self._fail(f"{its_address}: {HANDSHAKES_MAX} others are under way, and this one is the oldest")
        task = self._loop.create_task(self._shake_hands(accepted, str(address[0])))
        self._handshakes[task] = str(address[0])
        task.add_done_callback(partial(self._done, accepted))

    async def _shake_hands(self, accepted: socket.socket, address: str) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._protocol,
                accepted,
                ssl=self._tls.current,
                ssl_handshake_timeout=HANDSHAKE_S_MAX,
                ssl_shutdown_timeout=TLS_CLOSE_S_MAX,
            )
        except OSError as error:
            self._fail(f"{address}: {in_words(error)}")

    def _fail(self, text: str) -> None:
        self.failed_count += 1
        self._failed(text)

    def _done(self, accepted: socket.socket, task: asyncio.Task[None]) -> None:
        self._handshakes.pop(task, None)
        if task.cancelled():  # perhaps before the loop had a transport that closes it
            accepted.close()


class NodeTls:
    """The certificates of a node: of its listeners, and of the connections that it dials."""

    def __init__(self, config: NodeConfig) -> None:
        """Errors: ConfigError for a store that cannot be used."""
        self._served = {name: TlsContext(security, Side.SERVER) for name, security in config.security}
        security = config.security_between_nodes
        self._dialed = TlsContext(security, Side.CLIENT) if security.uses_tls else None
        self._mappings: dict[str | None, PrincipalMapping] = {None: _mapping(security)}
        # Names of SASL are not those of certificates.
        self._mappings |= {name: _mapping(each) for name, each in config.security if each.protocol is SSL}
        settings = config.authorizer
        self.authorizer = None if settings is None else Authorizer(settings)
        self._acls: tuple[AclFile, ...] = ()
        if settings is not None and settings.acl_file is not None and self.authorizer is not None:
            self._acls = (AclFile(settings.acl_file, self.authorizer),)
        self._refreshed_s = time.monotonic()
        self._under_way: asyncio.Future[None] | None = None

    @property
    def for_dials(self) -> ssl.SSLContext | None:
        """The context of the next dial; None if it is made without TLS."""
        return None if self._dialed is None else self._dialed.current

    def for_listener(self, name: str) -> TlsContext | None:
        """The context of a listener; None for one without TLS."""
        return self._served.get(name)

    def named(self, listener: str | None, principal: Principal) -> Principal | None:
        """The name that a listener has for the holder of a certificate, and None for one to whom it gives none.

        Whoever was dialed (None) keeps the name in the certificate then.
        """
        mapping = self._mappings.get(listener)
        found = principal if mapping is None else mapping.named(principal)
        return principal if found is None and listener is None else found

    def refresh_if_due(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read changed files again, on a thread: a file system may be slow."""
        if (self._contexts or self._acls) and time.monotonic() >= self._refreshed_s + REFRESH_S:
            self._refreshed_s = inf  # until it is done
            self._under_way = loop.run_in_executor(None, self.refresh)

    def refresh(self) -> None:
        """Take up changed files, and log what came of it."""
        try:
            files: Sequence[TlsContext | AclFile] = [*self._contexts, *self._acls]
            for each in files:
                report = each.refresh()
                if report is not None:
                    logger.log(logging.ERROR if each.is_stale else logging.INFO, "%s", report)
        finally:
            self._refreshed_s = time.monotonic()

    def metrics(self, failed_handshakes: int) -> dict[str, float]:
        """What is about TLS; without a certificate it has no days left, NaN."""
        expires_s = min((context.expires_s for context in self._contexts), default=nan)
        return {
            "certificate-days-left": (expires_s - time.time()) / DAY_S,
            "failed-handshakes-total": failed_handshakes,
            "certificates-not-taken-up": sum(context.is_stale for context in self._contexts),
            "acls": 0 if self.authorizer is None else len(self.authorizer.acls),
            "acls-not-taken-up": sum(file.is_stale for file in self._acls),
        }

    @property
    def _contexts(self) -> Sequence[TlsContext]:
        return [*self._served.values(), *([] if self._dialed is None else [self._dialed])]


def _mapping(security: Security) -> PrincipalMapping:
    return PrincipalMapping(security.text(MAPPING_RULES_KEY))


def warn_of_plaintext(config: NodeConfig) -> None:
    """Log a warning for each listener that others than this machine can reach in the clear."""
    for name, endpoint in config.listeners:
        is_loopback = endpoint.host in LOOPBACK or endpoint.host.startswith("127.")
        if not config.security_of(name).uses_tls and not is_loopback:
            logger.warning("listener %s at %s is PLAINTEXT: whoever reaches it may do everything there", name, endpoint)

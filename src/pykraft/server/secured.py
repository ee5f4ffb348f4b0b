"""TLS and SASL of a node's connections: handshakes of those that connect, and files that are read again.

A connection becomes a link when its handshake is done; until then it has a deadline, and a listener has at most
`HANDSHAKES_MAX` of them at a time. One more ends the oldest: a handshake takes milliseconds, so that one has stalled.
Invariants: nothing that the other end sends before that reaches the node; each new connection, in both directions, uses
the newest certificates and users that could be read; without TLS and SASL there is nothing of all this.

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
from typing import Any, Final

from pykraft.config import LOOPBACK, NodeConfig
from pykraft.security.contexts import FromFiles, Side, TlsContext
from pykraft.security.sasl import Credentials, Mechanisms
from pykraft.server.authentication import Authentication
from pykraft.server.binding import TLS_CLOSE_S_MAX, in_words

HANDSHAKES_MAX: Final = 64
"""Handshakes of one listening socket at a time."""
HANDSHAKE_S_MAX: Final = 10.0
"""How long a handshake may take."""
REFRESH_S: Final = 5.0
"""How often it is checked whether files with certificates have changed."""
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
        tls: TlsContext | None,
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
        protocol = self._protocol()
        options: dict[str, Any] = {}
        if self._tls is not None:
            options = {"ssl": self._tls.current, "ssl_handshake_timeout": HANDSHAKE_S_MAX}
            options["ssl_shutdown_timeout"] = TLS_CLOSE_S_MAX
        try:
            # Not what this returns: with TLS, uvloop returns a protocol of its own.
            await self._loop.connect_accepted_socket(lambda: protocol, accepted, **options)
            if isinstance(protocol, Authentication):
                async with asyncio.timeout(HANDSHAKE_S_MAX):
                    await protocol.finished()
        except TimeoutError as error:
            self._fail(f"{address}: {in_words(error) or f'SASL takes longer than {HANDSHAKE_S_MAX:g} seconds'}")
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
        by_name = dict(config.security)
        self._served = {name: TlsContext(by_name[name], Side.SERVER) for name in by_name if by_name[name].uses_tls}
        self._mechanisms = {name: Mechanisms(by_name[name]) for name in by_name if by_name[name].uses_sasl}
        security = config.security_between_nodes
        self._dialed = TlsContext(security, Side.CLIENT) if security.uses_tls else None
        self.credentials = Credentials(security) if security.uses_sasl else None
        """What this node proves itself with; None if it is not asked."""
        self._refreshed_s = time.monotonic()
        self._under_way: asyncio.Future[None] | None = None

    @property
    def for_dials(self) -> ssl.SSLContext | None:
        """The context of the next dial; None if it is made without TLS."""
        return None if self._dialed is None else self._dialed.current

    def for_listener(self, name: str) -> TlsContext | None:
        """The context of a listener; None for one without TLS."""
        return self._served.get(name)

    def asks_on(self, name: str) -> Mechanisms | None:
        """The mechanisms by which clients of a listener authenticate; None for one without SASL."""
        return self._mechanisms.get(name)

    def refresh_if_due(self, loop: asyncio.AbstractEventLoop) -> None:
        """Read changed files again, on a thread: a file system may be slow."""
        if self._from_files and time.monotonic() >= self._refreshed_s + REFRESH_S:
            self._refreshed_s = inf  # until it is done
            self._under_way = loop.run_in_executor(None, self.refresh)

    def refresh(self) -> None:
        """Take up changed files, and log what came of it."""
        try:
            for context in self._from_files:
                report = context.refresh()
                if report is not None:
                    logger.log(logging.ERROR if context.is_stale else logging.INFO, "%s", report)
        finally:
            self._refreshed_s = time.monotonic()

    def metrics(self, failed_handshakes: int) -> dict[str, float]:
        """What is about TLS; without a certificate it has no days left, NaN."""
        expires_s = min((context.expires_s for context in self._contexts), default=nan)
        return {
            "certificate-days-left": (expires_s - time.time()) / DAY_S,
            "failed-handshakes-total": failed_handshakes,
            "certificates-not-taken-up": sum(context.is_stale for context in self._from_files),
        }

    @property
    def _from_files(self) -> Sequence[FromFiles]:
        return [*self._contexts, *self._mechanisms.values()]

    @property
    def _contexts(self) -> Sequence[TlsContext]:
        return [*self._served.values(), *([] if self._dialed is None else [self._dialed])]


def warn_of_plaintext(config: NodeConfig) -> None:
    """Log a warning for each listener that others than this machine can reach in the clear."""
    for name, endpoint in config.listeners:
        is_loopback = endpoint.host in LOOPBACK or endpoint.host.startswith("127.")
        security = config.security_of(name)
        if security.uses_tls or is_loopback:
            continue
        if security.uses_sasl:
            logger.warning("listener %s at %s is SASL_PLAINTEXT: others on the way read and change all", name, endpoint)
        else:
            logger.warning("listener %s at %s is PLAINTEXT: whoever reaches it may do everything there", name, endpoint)

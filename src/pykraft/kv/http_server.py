"""Serves an ASGI application with uvicorn on sockets of ours, on the node's loop, within bounds.

uvicorn bounds heads of requests, and lets a connection write only as fast as its client reads. Invariants that this
module adds: there are at most `CONNECTIONS_MAX` connections, and one on which the application does not work ends after
about `IDLE_S`, if it sends nothing, or half a head, or does not read its answer.

Source: uvicorn's settings and its class H11Protocol; ours (ADR 085).
"""

import asyncio
import hmac
import logging
import socket
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from pykraft import errors
from pykraft.kv.api import ABORT
from pykraft.machine.asgi import AsgiApp, AsgiReceive, AsgiScope, AsgiSend
from pykraft.security.contexts import TlsContext
from pykraft.security.files import FromFiles
from pykraft.server.secured import HandshakeServer

CONNECTIONS_MAX: Final = 500
HEAD_SIZE_BYTES_MAX: Final = 1 << 14
"""Request line and headers."""
WATCH_INTERVAL_S: Final = 5.0
IDLE_S: Final = 15.0
BACKLOG: Final = 100

logger = logging.getLogger("pykraft")


class _ClosedOnce:
    """A transport that may be closed again: after that, asyncio's TLS could not even abort it."""

    def __init__(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        # What each request asks for is not looked up again: that cost as much as a field of its body.
        self.is_closing = transport.is_closing
        self.write = cast("asyncio.Transport", transport).write

    def close(self) -> None:
        if not self.is_closing():
            self._transport.close()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a transport has
        return getattr(self._transport, name)


class BoundedConnection(H11Protocol):
    """uvicorn's connection, with a watchdog and an end that does not wait for the client."""

    app: AsgiApp

    def __init__(self, *args: Any, **others: Any) -> None:  # noqa: ANN401 - uvicorn passes what its class takes
        super().__init__(*args, **others)
        app = self.app
        self._idle_s = 0.0
        self._watchdog: asyncio.TimerHandle | None = None

        async def with_abort(scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
            scope[ABORT] = self.transport.abort
            await app(scope, receive, send)

        self.app = with_abort

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvicorn closes it at several places, one after the other.
        super().connection_made(cast("asyncio.Transport", _ClosedOnce(transport)))
        if len(self.connections) > CONNECTIONS_MAX:
            self.transport.abort()
        else:
            self._watch()

    def data_received(self, data: bytes) -> None:
        """Whatever comes from the client, nothing but its connection ends of it."""
        if self.transport.is_closing():  # TLS passes on what comes while an answer is being sent
            return
        try:
            super().data_received(data)
        except Exception as error:  # noqa: BLE001 - whatever a client makes uvicorn do wrong
            # Such as a body that turns out to be malformed after its answer, which uvicorn tries to answer again.
            logger.debug("a connection to the HTTP API: %s", error)
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._watchdog is not None:
            self._watchdog.cancel()
        super().connection_lost(exc)

    def _watch(self) -> None:
        works = self.cycle is not None and not self.cycle.response_complete
        self._idle_s = 0.0 if works else self._idle_s + WATCH_INTERVAL_S
        if self._idle_s > IDLE_S:
            self.transport.abort()
        else:
            self._watchdog = self.loop.call_later(WATCH_INTERVAL_S, self._watch)


class HttpServer:
    """A server within a program that handles its signals itself."""

    def __init__(self, app: AsgiApp, sockets: Sequence[socket.socket], tls: TlsContext | None = None) -> None:
        """The sockets listen already; the server closes them. With ``tls`` connections begin with a handshake."""
        config = uvicorn.Config(
            app,
            http=BoundedConnection,
            ws="none",
            lifespan="off",
            loop="none",
            log_config=None,
            log_level="critical",  # what clients do wrong is not for the log, and the application logs its own bugs
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=int(IDLE_S),
            timeout_graceful_shutdown=1,
            h11_max_incomplete_event_size=HEAD_SIZE_BYTES_MAX,
            backlog=BACKLOG,
        )
        self._server = _Server(config) if tls is None else _TlsServer(config, tls)
        self._sockets = list(sockets)

    async def run(self) -> None:
        """Serve until `stop`; then wait a moment for what is under way, and end all connections."""
        await self._server.serve(self._sockets)
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()

    def stop(self) -> None:
        """Accept nothing more, and let `run` return."""
        self._server.should_exit = True


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take no signal: the command ends the service."""
        yield


class _TlsServer(_Server):
    """Connections come from `HandshakeServer`, so that renewed certificates and bounds are those of a node's."""

    def __init__(self, config: uvicorn.Config, tls: TlsContext) -> None:
        super().__init__(config)
        self._tls = tls
        self._handshakes: list[HandshakeServer] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])

        def connection() -> BoundedConnection:
            return BoundedConnection(self.config, self.server_state, self.lifespan.state)

        self._handshakes = [
            # What strangers do wrong is not for the log here either.
            HandshakeServer(each, self._tls, connection, failed=lambda text: logger.debug("a TLS handshake: %s", text))
            for each in sockets or ()
        ]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for each in self._handshakes:
            each.close()
        await super().shutdown(sockets)


class AllowedUsers(FromFiles):
    """The users and tokens of a file, one a line: ``user:password`` or a token. A changed file counts at once."""

    what = "credentials"

    def __init__(self, path: Path) -> None:
        """Errors: UsageError for a file that cannot be read, or has none."""
        self._path = path
        self._headers: list[bytes] = []
        super().__init__([path])

    def allow(self, header: bytes) -> bool:
        """Whether this is the Authorization of a user or token of the file."""
        self.take_up()
        # Each is compared, and in constant time: neither tells how much of a guess was right.
        return any([hmac.compare_digest(header, each) for each in self._headers])  # noqa: C419

    def make(self) -> None:
        try:
            lines = [line.strip() for line in self._path.read_text("utf-8").splitlines() if line.strip()]
        except (OSError, ValueError) as error:
            problem = getattr(error, "strerror", None) or "it is not UTF-8"
            raise errors.UsageError(f"--credentials-file {self._path}: {problem}") from error
        if not lines:
            raise errors.UsageError(f"--credentials-file {self._path}: it has no line user:password, and no token")
        self._headers = [
            b"Basic " + b64encode(line.encode()) if ":" in line else b"Bearer " + line.encode() for line in lines
        ]

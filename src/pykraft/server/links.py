"""TCP connections in both directions, as the frames that go in and out of them.

Owns sockets and their bounds: how many connections, how large a frame, how much may wait to be written, how
long one may be silent. Refuses to know what is in a frame. A peer that does not read its answers is not
read from either, so nothing piles up for it.

Source: Kafka ``SocketServer`` and ``KafkaChannel`` (muting); asyncio ``Protocol``.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from pykraft.errors import ProtocolError
from pykraft.host.ports import ConnectionId
from pykraft.protocol.frame import FrameReader
from pykraft.types import Buffer, Endpoint

FIRST_FRAME_SIZE_BYTES_MAX = 512 * 1024
"""Largest frame of a client that has not yet sent one valid request."""
ACCEPTED_MAX = 2_000
"""Connections that clients may hold at one time."""
WRITE_BUFFER_SIZE_BYTES_MAX = 4 * 1024 * 1024
"""Unsent bytes of one connection above which it is no longer read from."""
SWEEPS_PER_IDLE_TIME = 4


class LinkOwner(Protocol):
    """Who is told what happens on links; exceptions stop the node."""

    def link_accepted(self, connection: ConnectionId, listener: str) -> None:
        """A client connected on this listener."""
        ...

    def link_connected(self, connection: ConnectionId) -> None:
        """A dial succeeded."""
        ...

    def link_closed(self, connection: ConnectionId) -> None:
        """A connection ended, or a dial failed."""
        ...

    def link_received(self, connection: ConnectionId, frame: Buffer) -> None:
        """One whole frame."""
        ...

    def report(self, text: str) -> None:
        """One line for the operator."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLimits:
    """Bounds that the configuration decides; milliseconds and bytes."""

    frame_size_bytes_max: int
    idle_ms_max: int
    dial_ms_max: int


class Link(asyncio.Protocol):
    """One connection."""

    def __init__(self, links: Links, connection: ConnectionId, listener: str | None) -> None:
        self.connection = connection
        self.listener = listener
        self.transport: asyncio.Transport | None = None
        self.heard_s = 0.0
        self._links = links
        first = FIRST_FRAME_SIZE_BYTES_MAX if listener is not None else links.limits.frame_size_bytes_max
        self._frames = FrameReader(min(first, links.limits.frame_size_bytes_max))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=WRITE_BUFFER_SIZE_BYTES_MAX)
        raw = transport.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._links.made(self)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`; a stream that is not frames is closed with one line."""
        self._links.heard(self)
        try:
            frames = self._frames.feed(data)
        except ProtocolError as error:
            self._links.refuse(self, str(error))
            return
        for frame in frames:
            if not self._links.received(self, frame):
                return
        if frames:
            self._frames.size_bytes_max = self._links.limits.frame_size_bytes_max

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        del exc
        self._links.lost(self)

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`: the peer does not read, so it is not read from."""
        if self.transport is not None:
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        if self.transport is not None and not self.transport.is_closing():
            self.transport.resume_reading()


class Links:
    """All connections of a node."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        owner: LinkOwner,
        limits: LinkLimits,
        *,
        guard: Callable[[BaseException], None],
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """``guard`` is told of every exception that is not the peer's fault; ``tls`` has its place, None is allowed."""
        assert tls is None, "TLS is refused by the configuration until it is supported"
        self.limits = limits
        self._loop = loop
        self._owner = owner
        self._guard = guard
        self._tls = tls
        self._links: dict[ConnectionId, Link] = {}
        self._dials: dict[ConnectionId, asyncio.Task[None]] = {}
        self._servers: list[asyncio.Server] = []
        self._next = 1
        self._accepted = 0
        self._sweeper = loop.call_later(self._sweep_s, self._sweep)

    async def listen(self, name: str, endpoint: Endpoint) -> None:
        """Accept connections on this listener. Raises OSError when the address cannot be bound."""
        server = await self._loop.create_server(
            lambda: self._new_link(name), endpoint.host or None, endpoint.port, ssl=self._tls, reuse_address=True
        )
        self._servers.append(server)

    def dial(self, endpoint: Endpoint) -> ConnectionId:
        """Begin to connect; the owner hears how it ended."""
        link = self._new_link(None)
        task = self._loop.create_task(self._dial(link, endpoint))
        self._dials[link.connection] = task
        return link.connection

    def send(self, connection: ConnectionId, parts: Sequence[Buffer]) -> None:
        """Write one frame; ignored when the connection is gone."""
        link = self._links.get(connection)
        if link is not None and link.transport is not None and not link.transport.is_closing():
            link.transport.writelines(parts)

    def close(self, connection: ConnectionId) -> None:
        """Close without telling the owner; what was written still goes out."""
        task = self._dials.pop(connection, None)
        if task is not None:
            task.cancel()
        link = self._links.pop(connection, None)
        if link is not None:
            self._forget(link)
            if link.transport is not None:
                link.transport.close()

    def close_all(self) -> None:
        """Stop listening and close everything."""
        self._sweeper.cancel()
        for server in self._servers:
            server.close()
        for connection in [*self._links, *self._dials]:
            self.close(connection)

    def made(self, link: Link) -> None:
        """A link has its transport; the clients' links are told of here, the own ones by `_dial`."""
        self.heard(link)
        if link.listener is None:
            return
        if self._accepted >= ACCEPTED_MAX:
            self._owner.report(f"closing a new connection: {ACCEPTED_MAX} are open already")
            assert link.transport is not None
            link.transport.abort()
            return
        self._accepted += 1
        self._links[link.connection] = link
        self._guarded(self._owner.link_accepted, link.connection, link.listener)

    def received(self, link: Link, frame: Buffer) -> bool:
        """Pass a frame on; False when the connection was closed because of it."""
        if link.connection in self._links:
            self._guarded(self._owner.link_received, link.connection, frame)
        return link.connection in self._links

    def refuse(self, link: Link, reason: str) -> None:
        """Close a link whose peer does not speak our protocol."""
        if link.connection in self._links:
            self._owner.report(f"closing connection {link.connection}: {reason}")
            self.close(link.connection)
            self._guarded(self._owner.link_closed, link.connection)

    def lost(self, link: Link) -> None:
        """The connection ended from outside."""
        if self._links.pop(link.connection, None) is not None:
            self._forget(link)
            self._guarded(self._owner.link_closed, link.connection)

    def heard(self, link: Link) -> None:
        """The peer is alive."""
        link.heard_s = self._loop.time()

    @property
    def _sweep_s(self) -> float:
        return self.limits.idle_ms_max / 1_000 / SWEEPS_PER_IDLE_TIME

    def _new_link(self, listener: str | None) -> Link:
        link = Link(self, ConnectionId(self._next), listener)
        self._next += 1
        return link

    def _forget(self, link: Link) -> None:
        if link.listener is not None:
            self._accepted -= 1

    async def _dial(self, link: Link, endpoint: Endpoint) -> None:
        """Connect within the time that a dial may take; in any other case the owner hears that it is closed."""
        try:
            async with asyncio.timeout(self.limits.dial_ms_max / 1_000):
                await self._loop.create_connection(lambda: link, endpoint.host, endpoint.port, ssl=self._tls)
        except (OSError, TimeoutError):
            if self._dials.pop(link.connection, None) is not None:
                self._guarded(self._owner.link_closed, link.connection)
            return
        if self._dials.pop(link.connection, None) is None:
            assert link.transport is not None
            link.transport.abort()
            return
        self._links[link.connection] = link
        self._guarded(self._owner.link_connected, link.connection)

    def _sweep(self) -> None:
        """Close clients that have been silent for too long."""
        oldest_s = self._loop.time() - self.limits.idle_ms_max / 1_000
        for link in [link for link in self._links.values() if link.listener is not None and link.heard_s < oldest_s]:
            self.close(link.connection)
            self._guarded(self._owner.link_closed, link.connection)
        self._sweeper = self._loop.call_later(self._sweep_s, self._sweep)

    def _guarded(self, act: Callable[..., None], *arguments: object) -> None:
        try:
            act(*arguments)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the node stops with it
            self._guard(error)

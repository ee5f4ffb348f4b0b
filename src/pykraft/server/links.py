"""All TCP connections of a node: who may connect, how many at a time, and how long one may be silent.

This module owns the listening sockets, the links and the dials; it lists a link exactly as long as it is open.
Invariant: for each connection the user hears that it was accepted or connected, then its frames, then once that it
closed, and nothing after that; for one that the user closed itself, nothing more. These are bounded: client connections
(one too many closes the longest silent one, since the new one may be a voter), the bytes of all unfinished frames, the
bytes of all answers that clients have not read, the bytes of all large requests until they are answered, and the
requests passed on in one turn of the loop. Clients take turns, so timers and the disk are served in between, however
many clients send requests. Who holds room for a large request and sends nothing gives way to those that wait for it.

Source: Kafka's ``SocketServer`` (``ConnectionQuotas``, idle expiry) and ``SocketServerConfigs``; the bounds of all
connections together are ours (ADR 033).
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

from pykraft.config import NodeConfig
from pykraft.errors import ProtocolError
from pykraft.host.ports import ConnectionId
from pykraft.security.principal import RemoteEnd
from pykraft.security.settings import MAPPING_RULES_KEY
from pykraft.server.authentication import Authentication, connect
from pykraft.server.binding import ACCEPTED_MAX, UNLIMITED, Names, descriptor_max, in_words, serve, tls_options
from pykraft.server.link import PIECE_SIZE_BYTES_MAX, Link
from pykraft.server.link_protocol import LinkProtocol
from pykraft.server.sasl_client import SaslClient
from pykraft.server.sasl_server import SaslServer
from pykraft.server.secured import HandshakeServer, NodeTls
from pykraft.types import Buffer, Endpoint

REQUEST_SIZE_BYTES_MAX: Final = 64 * 1024
"""Largest request: no request of Raft or of an operator needs more."""
HELD_SIZE_BYTES_MAX: Final = 256 * 1024 * 1024
"""Bytes of all unfinished and waiting frames together; above this the connection that holds most is closed."""
UNSENT_SIZE_BYTES_MAX: Final = 256 * 1024 * 1024
"""Bytes of all answers that clients have not read; above this the one that has not read for longest is closed."""
ROOM_SIZE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Bytes of all large requests that are being received and served together; one always may, whatever its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkLimits:
    """Limits from the configuration, in milliseconds and bytes.

    Anybody may send a request, but only peers that this node asked send answers: so answers may be large. So may
    requests on listeners for Kafka's producers, which bring batches.
    """

    request_size_bytes_max: int
    answer_size_bytes_max: int
    idle_ms_max: int
    dial_ms_max: int
    accepted_max: int
    forward_size_bytes_max: int = 0
    """For Forward, where that may be larger."""
    client_request_size_bytes_max: int = 0
    cut_size_bytes_max: int = 0
    client_listeners: tuple[str, ...] = ()
    held_size_bytes_max: int = HELD_SIZE_BYTES_MAX
    descriptor_max: int = UNLIMITED
    unsent_size_bytes_max: int = UNSENT_SIZE_BYTES_MAX
    room_size_bytes_max: int = ROOM_SIZE_BYTES_MAX

    @classmethod
    def of(cls, config: NodeConfig, accepted_max: int | None = None) -> LinkLimits:
        return cls(
            request_size_bytes_max=min(config.request_size_bytes_max, REQUEST_SIZE_BYTES_MAX),
            forward_size_bytes_max=min(config.request_size_bytes_max, config.forward_size_bytes_max),
            client_request_size_bytes_max=min(
                config.request_size_bytes_max, config.raft.batch_size_bytes_max + REQUEST_SIZE_BYTES_MAX
            ),
            cut_size_bytes_max=config.request_size_bytes_max,
            client_listeners=config.client_listeners,
            answer_size_bytes_max=config.answer_size_bytes_max,
            held_size_bytes_max=max(HELD_SIZE_BYTES_MAX, 2 * config.answer_size_bytes_max),
            idle_ms_max=config.connections_idle_ms_max,
            dial_ms_max=config.raft.request_timeout_ms,
            accepted_max=ACCEPTED_MAX if accepted_max is None else accepted_max,
            descriptor_max=descriptor_max(),
        )

    def frame_size_bytes_max(self, listener: str | None) -> int:
        """Largest frame on a connection that this listener accepted, or that this node dialed (None)."""
        if listener is None:
            return self.answer_size_bytes_max
        if self.is_clients(listener):
            return self.client_request_size_bytes_max
        return max(self.request_size_bytes_max, self.forward_size_bytes_max)

    def other_size_bytes_max(self, listener: str | None) -> int:
        """The same, but for Forward."""
        most = self.frame_size_bytes_max(listener)
        is_larger = listener is not None and not self.is_clients(listener)
        return min(most, self.request_size_bytes_max) if is_larger else most

    def is_clients(self, listener: str | None) -> bool:
        """Whether a listener is for Kafka's clients, whose requests are cut if they are too large, and refused."""
        return listener is not None and listener.upper() in self.client_listeners


__all__ = ["LinkLimits", "Links", "LinksUser"]

MAKE_ROOM_MAX: Final = 8
"""Most clients closed at a time to make room for a new one."""
REQUESTS_PER_TURN_MAX: Final = 16
"""Requests passed on in one turn of the loop: a few milliseconds, compared with a fetch timeout of two seconds."""
SWEEPS_PER_IDLE_TIME: Final = 4
UNHEARD_S: Final = 0.0
"""In place of the time at which something was heard on a connection that was dialed over TLS."""
ROOM_LOOK_S: Final = 1.0
"""How often it is checked who holds room, while others wait for it."""
ROOM_SILENT_S: Final = 3.0
ROOM_S_MAX: Final = 30.0
"""Who holds room for a request and sends nothing for so long, or not all of it in so long, gives way."""


class LinksUser(Protocol):
    """Gets the events of connections; its methods do not raise."""

    def link_accepted(self, connection: ConnectionId, listener: str, end: RemoteEnd) -> None:
        """A client connected on this listener; ``end`` says who it is, whenever it asks something."""

    def answer_api_versions(self, listener: str, frame: Buffer) -> list[Buffer]:
        """The frame for a connection that is not accepted before it is authenticated. Errors: ProtocolError."""

    def link_connected(self, connection: ConnectionId, end: RemoteEnd) -> None:
        """A dial succeeded; ``end`` says who is there."""

    def link_closed(self, connection: ConnectionId, *, is_refused: bool = False, reason: str = "") -> None:
        """See `Host.on_closed`; the reason is empty when the other end closed the connection."""

    def link_received(self, connection: ConnectionId, frame: Buffer) -> None:
        """One whole frame, without its length."""

    def report_connection(self, text: str) -> None:
        """One line for the operator about a connection; anyone who can connect may cause it."""

    def fail(self, error: BaseException) -> None:
        """An error that is neither a peer's fault nor the network's."""


class Links:
    """All connections of a node. See `pykraft.host.ports.Ports` and `pykraft.server.link.LinkOwner`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        user: LinksUser,
        limits: LinkLimits,
        *,
        names: Names | None = None,
        tls: NodeTls | None = None,
    ) -> None:
        """Without ``tls`` all connections are in the clear."""
        self.violations = 0
        """Connections that were closed because they sent something other than frames."""
        self._loop = loop
        self._user = user
        self._limits = limits
        self._names = names or Names(loop)
        self._tls = tls
        self._next = 1
        self._piece = bytearray(PIECE_SIZE_BYTES_MAX)
        self._links: dict[ConnectionId, Link] = {}
        self._accepted: dict[ConnectionId, Link] = {}
        self._dials: dict[ConnectionId, asyncio.Task[None]] = {}
        self._servers: list[asyncio.Server] = []
        self._handshakes: list[HandshakeServer] = []
        self._held_size_bytes = 0
        self._unsent: dict[ConnectionId, int] = {}
        self._unsent_size_bytes = 0
        self._is_bounding = False
        self._room_size_bytes = 0
        self._room_since_s: dict[ConnectionId, float] = {}
        """When each link got the room that it holds."""
        self._room_wanted: dict[ConnectionId, int] = {}
        """The sizes of the requests that wait for room, oldest first."""
        self._room_timer: asyncio.TimerHandle | None = None
        self._ready: deque[Link] = deque()
        self._passed_on = 0
        self._is_turn_due = False
        self._is_passing_on = False
        self._is_closed = False
        self._sweeper = loop.call_later(self._sweep_s, self._sweep)

    async def listen(self, name: str, sockets: Sequence[socket.socket]) -> None:
        """Accept connections for this listener on listening sockets, which are closed with the links."""
        tls, sasl = (None, None) if self._tls is None else (self._tls.for_listener(name), self._tls.asks_on(name))

        def protocol() -> asyncio.BaseProtocol:
            link = self._new_link(name, None if sasl is None else SaslServer(sasl))
            made = LinkProtocol(link)
            if link.sasl is None:
                return made
            return Authentication(link.sasl, made, answer_versions=partial(self._user.answer_api_versions, name))

        def failed(text: str) -> None:
            what = "TLS handshake" if sasl is None else "SASL handshake" if tls is None else "TLS or SASL handshake"
            self._user.report_connection(f"a {what} on {name} failed, with {text}")

        for listening in sockets:
            if tls is None and sasl is None:
                self._servers.append(await serve(self._loop, protocol, listening))
            else:
                assert self._tls is not None
                addresses = self._tls.addresses
                self._handshakes.append(HandshakeServer(listening, tls, protocol, failed=failed, addresses=addresses))

    def dial(self, endpoint: Endpoint) -> ConnectionId:
        credentials = None if self._tls is None else self._tls.credentials
        link = self._new_link(None, None if credentials is None else SaslClient(credentials))
        self._dials[link.connection] = self._loop.create_task(self._dial(link, endpoint))
        return link.connection

    def send(self, connection: ConnectionId, parts: Sequence[Buffer]) -> None:
        link = self._links.get(connection)
        if link is None:
            return
        link.send(parts)
        if connection in self._accepted and (link.buffered_size_bytes or connection in self._unsent):
            self._note_unsent(link)
            if self._unsent_size_bytes > self._limits.unsent_size_bytes_max and not self._is_bounding:
                self._is_bounding = True
                # Not now: the user must not be called back within its own call of `send`.
                self._loop.call_soon(self._bound_unsent)

    def received_size_bytes(self, connection: ConnectionId) -> tuple[int, int]:
        link = self._links.get(connection)
        return link.received_size_bytes if link is not None else (0, 0)

    def unsent_size_bytes(self, connection: ConnectionId) -> int:
        link = self._links.get(connection)
        return link.unsent_size_bytes if link is not None else 0

    def close(self, connection: ConnectionId) -> None:
        task = self._dials.pop(connection, None)
        if task is not None:
            task.cancel()
        link = self._forget(connection)
        if link is not None:
            link.close()

    def close_all(self) -> None:
        self._is_closed = True
        self._sweeper.cancel()
        if self._room_timer is not None:
            self._room_timer.cancel()
        for server in self._servers:
            # A connection that asyncio accepted in this turn is lost, and stays open, if its server is closed before
            # the next one: first accept no more. uvloop, which refuses to be told so, has no such turn.
            for listening in server.sockets:
                with suppress(RuntimeError):
                    self._loop.remove_reader(listening)
            self._loop.call_soon(self._loop.call_soon, server.close)
        for handshakes in self._handshakes:
            handshakes.close()
        for connection in [*self._links, *self._dials]:
            self.close(connection)

    def link_made(self, link: Link) -> None:
        if self._is_closed:
            # The connection was being accepted when everything was closed.
            link.abort()
            return
        named = link.principal if self._tls is None else self._tls.named(link.listener, link.principal)
        if named is None:
            text = (
                f"closing connection {link.connection} on {link.listener}: no rule of {MAPPING_RULES_KEY} applies to "
            )
            self._user.report_connection(f"{text}{link.principal}")
            link.abort()
            return
        link.principal = named
        if link.listener is None:
            if self._dials.pop(link.connection, None) is None:
                link.abort()
                return
            self._links[link.connection] = link
            self._user.link_connected(link.connection, link)
            return
        count = len(self._accepted)
        # The system assigns the lowest free number, so the new connection's number tells how many descriptors the
        # process uses. The application uses some, too, so closing one client may not be enough: close as many as are
        # missing.
        missing = max(link.descriptor - self._limits.descriptor_max, count + 1 - self._limits.accepted_max)
        for _ in range(min(missing, count, MAKE_ROOM_MAX)):
            # Make room instead of refusing the new client: it may be a voter.
            silent = min(self._accepted.values(), key=lambda each: each.heard_s)
            self._end(silent, f"{count} connections are open, and it has been silent the longest")
        if missing > 0 and not count:  # the rest of the process uses all descriptors
            link.abort()
            return
        self._links[link.connection] = self._accepted[link.connection] = link
        self._user.link_accepted(link.connection, link.listener, link)

    def link_ready(self, link: Link) -> None:
        """See `pykraft.server.link.LinkOwner`: at once, unless others wait or this turn of the loop is used up."""
        self._ready.append(link)
        # While one is being passed on, its client's next request queues behind those of the others.
        if len(self._ready) == 1 and self._passed_on < REQUESTS_PER_TURN_MAX and not self._is_passing_on:
            self._pass_on()
        if not self._is_turn_due and (self._ready or self._passed_on):
            self._is_turn_due = True
            self._loop.call_soon(self._turn)

    def link_received(self, link: Link, frame: Buffer) -> None:
        self._user.link_received(link.connection, frame)

    def link_held(self, change_bytes: int) -> None:
        self._held_size_bytes += change_bytes
        if self._held_size_bytes > self._limits.held_size_bytes_max:
            # Close the largest holder: it is the likely cause, and the other connections stay open.
            largest = max(self._links.values(), key=lambda each: each.held_size_bytes)
            self._end(largest, f"unfinished frames take {self._held_size_bytes} bytes, and it holds the most of them")

    def link_wants_room(self, link: Link, size_bytes: int) -> bool:
        if not self._room_wanted and self._has_room(size_bytes):
            self._take_room(link.connection, size_bytes)
            return True
        self._room_wanted[link.connection] = size_bytes
        if self._room_timer is None:
            self._room_timer = self._loop.call_later(ROOM_LOOK_S, self._look_for_room)
        return False

    def link_gives_room_back(self, link: Link) -> None:
        self._give_room_back(link)
        # Not now: the link that gave it back is not done.
        self._loop.call_soon(self._grant_room)

    def link_refused(self, link: Link, reason: str) -> None:
        if link.connection in self._links:
            self.violations += 1
            self._end(link, reason)

    def link_lost(self, link: Link) -> None:
        if self._forget(link.connection) is not None:
            self._user.link_closed(link.connection)

    @property
    def accepted_count(self) -> int:
        return len(self._accepted)

    @property
    def dialed_count(self) -> int:
        """Number of dialed connections that are open."""
        return len(self._links) - len(self._accepted)

    @property
    def failed_handshakes(self) -> int:
        """Connections that ended before their TLS handshake was done."""
        return sum(server.failed_count for server in self._handshakes)

    @property
    def _sweep_s(self) -> float:
        return self._limits.idle_ms_max / 1_000 / SWEEPS_PER_IDLE_TIME

    def _new_link(self, listener: str | None, sasl: SaslServer | SaslClient | None = None) -> Link:
        connection, self._next, limits = ConnectionId(self._next), self._next + 1, self._limits
        link = Link(
            self,
            connection,
            listener=listener,
            loop=self._loop,
            frame_size_bytes_max=limits.frame_size_bytes_max(listener),
            cut_size_bytes_max=limits.cut_size_bytes_max if limits.is_clients(listener) else 0,
            other_size_bytes_max=limits.other_size_bytes_max(listener),
            piece=self._piece,
        )
        link.sasl = sasl
        return link

    def _forget(self, connection: ConnectionId) -> Link | None:
        link = self._links.pop(connection, None)
        self._unsent_size_bytes -= self._unsent.pop(connection, 0)
        self._room_wanted.pop(connection, None)
        if link is not None:
            if self._tls is not None and link.secured_endpoint is not None:
                is_refused = link.heard_s == UNHEARD_S
                (self._tls.pauses.refused if is_refused else self._tls.pauses.heard)(link.secured_endpoint)
            self._accepted.pop(connection, None)
            self._held_size_bytes -= link.held_size_bytes
            if connection in self._room_since_s:
                self.link_gives_room_back(link)
        return link

    def _has_room(self, size_bytes: int) -> bool:
        return not self._room_size_bytes or self._room_size_bytes + size_bytes <= self._limits.room_size_bytes_max

    def _take_room(self, connection: ConnectionId, size_bytes: int) -> None:
        self._room_size_bytes += size_bytes
        self._room_since_s[connection] = self._loop.time()

    def _give_room_back(self, link: Link) -> None:
        if self._room_since_s.pop(link.connection, None) is not None:
            self._room_size_bytes -= link.room_size_bytes

    def _grant_room(self) -> None:
        while self._room_wanted:
            connection, size_bytes = next(iter(self._room_wanted.items()))
            if not self._has_room(size_bytes):
                return
            del self._room_wanted[connection]
            self._take_room(connection, size_bytes)
            self._links[connection].has_room(size_bytes)

    def _look_for_room(self) -> None:
        """Close those that hold room for a request which does not come, if others wait for it."""
        self._room_timer = None
        if not self._room_wanted:
            return
        now_s = self._loop.time()
        for connection, since_s in list(self._room_since_s.items()):
            link = self._links[connection]
            is_late = now_s - since_s > ROOM_S_MAX or now_s - max(since_s, link.heard_s) > ROOM_SILENT_S
            if is_late and link.received_size_bytes[1]:
                self._end(link, f"its request of {link.room_size_bytes} bytes does not come, and others wait")
        self._room_timer = self._loop.call_later(ROOM_LOOK_S, self._look_for_room)

    def _turn(self) -> None:
        """A new turn of the loop: the longest waiting links go first."""
        self._is_turn_due = False
        self._passed_on = 0
        while self._ready and self._passed_on < REQUESTS_PER_TURN_MAX:
            self._pass_on()
        if self._passed_on and not self._is_turn_due:
            self._is_turn_due = True
            self._loop.call_soon(self._turn)

    def _pass_on(self) -> None:
        self._passed_on += 1
        self._is_passing_on = True
        try:
            self._ready.popleft().pass_on()
        finally:
            self._is_passing_on = False

    def _note_unsent(self, link: Link) -> None:
        size_bytes = link.buffered_size_bytes
        self._unsent_size_bytes += size_bytes - self._unsent.pop(link.connection, 0)
        if size_bytes:
            self._unsent[link.connection] = size_bytes

    def _bound_unsent(self) -> None:
        self._is_bounding = False
        # Measure again: the noted bytes may have been sent since.
        for connection in list(self._unsent):
            self._note_unsent(self._accepted[connection])
        while self._unsent_size_bytes > self._limits.unsent_size_bytes_max:
            # The client that has not read for longest goes first.
            slowest = min((self._accepted[each] for each in self._unsent), key=lambda each: each.unsent_since_s)
            reason = f"{self._unsent_size_bytes} bytes of responses are unread, and its own have waited the longest"
            self._forget(slowest.connection)
            slowest.abort()
            self._tell_end(slowest, reason)

    def _end(self, link: Link, reason: str) -> None:
        """Close a link because of what its peer did: tell the user, with one line for the operator about a client."""
        self.close(link.connection)
        self._tell_end(link, reason)

    def _tell_end(self, link: Link, reason: str) -> None:
        # The user knows whom it dialed and asks again every few milliseconds: it reports that once.
        if link.listener is not None:
            self._user.report_connection(f"closing connection {link.connection} on {link.listener}: {reason}")
        self._user.link_closed(link.connection, reason=reason)

    async def _dial(self, link: Link, endpoint: Endpoint) -> None:
        """Connect within the time limit of a dial; this tells the user of a failure, the link of a success."""
        is_refused, reason = False, ""
        try:
            await self._connect(link, endpoint)
        except AssertionError as error:  # our bug: the node stops with it
            self._user.fail(error)
            return
        except ConnectionRefusedError as error:
            is_refused, reason = True, in_words(error).lower()
        except TimeoutError:
            reason = f"no connection within {self._limits.dial_ms_max} ms"
        except OSError as error:
            reason = in_words(error)
        except Exception as error:  # noqa: BLE001 - a peer chose the endpoint: any error of it is a failed dial
            reason = f"its address cannot be dialed ({error})"
            self._user.report_connection(f"cannot dial {str(endpoint)!r}: {error!r}")
        else:
            return
        # The timeout may fire just after the link was made. The loop then closes that transport. uvloop does so
        # without `connection_lost`, and a later write would raise.
        was_made = self._forget(link.connection) is not None
        if self._dials.pop(link.connection, None) is not None or was_made:
            link.abort()
            self._user.link_closed(link.connection, is_refused=is_refused, reason=reason)

    async def _connect(self, link: Link, endpoint: Endpoint) -> None:
        """Try the addresses in turn, each with its share of the time.

        Errors: ConnectionRefusedError when each address refused; OSError.
        """
        secured = None if self._tls is None or not self._tls.proves_on_dials else self._tls
        if secured is not None:
            link.secured_endpoint, link.heard_s = endpoint, UNHEARD_S
            # A peer that is asked every few milliseconds would else get as many handshakes.
            await asyncio.sleep(secured.pauses.pause_s(endpoint))
        end_s = self._loop.time() + self._limits.dial_ms_max / 1_000
        try:
            async with asyncio.timeout_at(end_s):
                addresses = await self._names.addresses(endpoint)
        except TimeoutError:
            raise OSError(f"its name was not resolved within {self._limits.dial_ms_max} ms") from None
        except OSError as error:
            raise OSError(f"its name cannot be resolved ({in_words(error)})") from error
        failure: OSError | None = None
        for at, address in enumerate(addresses):
            share_s = max(0.0, end_s - self._loop.time()) / (len(addresses) - at)
            try:
                async with asyncio.timeout(share_s):
                    tls = tls_options(None if secured is None else secured.for_dials, endpoint.host)
                    transport = await connect(LinkProtocol(link), link.sasl, address, endpoint.port, tls)
            except OSError as error:
                is_refused = isinstance(error, ssl.SSLError | ConnectionResetError)
                if secured is not None and (is_refused or isinstance(error.__cause__, ProtocolError)):
                    secured.pauses.refused(endpoint)
                # One address may refuse because the peer listens on another, which did not answer.
                if failure is None or isinstance(failure, ConnectionRefusedError):
                    failure = error
                if link.connection in self._links:  # made just too late: do not use the link twice
                    break
            else:
                if secured is not None and transport.get_extra_info("peercert"):
                    secured.addresses.know(address)
                return
        raise failure or OSError(errno.EADDRNOTAVAIL, f"{endpoint.host} has no address")

    def _sweep(self) -> None:
        # Only clients: on a dialed connection this node itself decides when to send.
        oldest_s = self._loop.time() - self._limits.idle_ms_max / 1_000
        for link in [link for link in self._accepted.values() if link.heard_s < oldest_s]:
            self._forget(link.connection)
            link.abort()
            self._user.link_closed(link.connection)
        self._sweeper = self._loop.call_later(self._sweep_s, self._sweep)

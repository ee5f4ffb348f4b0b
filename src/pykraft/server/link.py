"""One TCP connection, in either direction, as a sequence of incoming frames.

A link owns a transport, the unfinished frame and the next one. Invariant: it passes on one request of a client at a
time, as Kafka's server does, and none while the client does not read its answers. So at most one answer, one write
buffer and one piece of the stream pile up for a client. It passes on answers from a peer at once, because this node
requested them. The rest of a large frame is received where it stays: until a batch is on disk, its bytes are not copied
again. A large request needs room from the owner, from when its size is known until it is answered: a link without it
does not read on, and its client waits, as in Kafka's ``queued.max.request.bytes``.

A kernel takes megabytes of an answer at once and sends them for a long time on a slow link. So a leader asks it what
is still to be sent, and does not count bytes in its own kernel as received by the peer.

Source: Kafka's ``KafkaChannel`` (muting), ``SocketServer.Processor`` and ``NetworkReceive``; asyncio's
``BufferedProtocol`` and ``selector_events._SelectorSocketTransport``; Linux tcp(7), SIOCOUTQ.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections.abc import Sequence
from typing import Final, Protocol, cast

from pykraft.errors import ProtocolError
from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import FrameReader
from pykraft.protocol.messages import ApiKey
from pykraft.security.principal import ANONYMOUS, principal_of
from pykraft.server.sasl_client import SaslClient
from pykraft.server.sasl_server import SaslRefusal, SaslServer
from pykraft.types import Buffer, Endpoint


def write_parts(transport: asyncio.WriteTransport, parts: Sequence[Buffer]) -> None:
    """Write these parts in one write, whatever kind of loop the transport belongs to.

    The selector loop of Python 3.12 and 3.13.0 has its own ``writelines``, which never calls ``pause_writing``, so that
    a peer that does not read would not be muted; and on a connection that is broken but not reported as lost yet, it
    later registers a writer for a closed descriptor. Its ``write`` has neither bug. uvloop's ``writelines`` is sound
    and saves a copy.
    """
    if isinstance(transport, asyncio.Transport):
        transport.write(b"".join(parts))
    else:  # uvloop's transport does not inherit from asyncio's
        transport.writelines(parts)


_SIOCOUTQ: Final = 0x5411
"""Linux only, where it has the same number as TIOCOUTQ."""


def unconfirmed_size_bytes(transport: asyncio.BaseTransport) -> int:
    """Bytes in the kernel's send queue that the other end has not acknowledged; 0 if unknown."""
    raw = transport.get_extra_info("socket")
    if raw is None or not sys.platform.startswith("linux"):
        return 0
    import fcntl

    try:
        answer = fcntl.ioctl(raw.fileno(), _SIOCOUTQ, bytes(4))
    except (OSError, ValueError):  # closed meanwhile, or no TCP socket
        return 0
    return int(struct.unpack("i", answer)[0])


WRITE_BUFFER_SIZE_BYTES_MAX: Final = 1024 * 1024
"""Above this many unsent bytes a connection is no longer read from."""
_FORWARD: Final = ApiKey.FORWARD.to_bytes(2, "big")
PIECE_SIZE_BYTES_MAX: Final = 64 * 1024
"""Bytes that are received at a time, except for the rest of a large frame."""
LARGE_SIZE_BYTES_MIN: Final = 64 * 1024
"""A larger request needs room."""
LAST_WORDS_TIMEOUT_S: Final = 2.0
"""How long a closed connection may take to send what was written."""


class LinkOwner(Protocol):
    """The owner of the links, which gets their events."""

    def link_made(self, link: Link) -> None:
        """The connection is established."""

    def link_ready(self, link: Link) -> None:
        """A client's request waits for its turn; call `Link.pass_on`."""

    def link_received(self, link: Link, frame: Buffer) -> None:
        """One whole frame, without its length."""

    def link_held(self, change_bytes: int) -> None:
        """The bytes that a link holds of unfinished and waiting frames changed by this much."""

    def link_wants_room(self, link: Link, size_bytes: int) -> bool:
        """Whether the link may receive so large a request now; if not, call `Link.has_room` later."""

    def link_gives_room_back(self, link: Link) -> None:
        """The request is answered; `Link.room_size_bytes` is still its size."""

    def link_refused(self, link: Link, reason: str) -> None:
        """The peer sent something other than frames; the link is closed already."""

    def link_lost(self, link: Link) -> None:
        """The connection ended; called exactly once for each link that was made, also after `Link.close`."""


class Link:
    """One connection; ``listener`` is the name of the listener that accepted it, None for one that we dialed.

    The loop calls it through `pykraft.server.link_protocol.LinkProtocol`. See `asyncio.Protocol`.
    """

    def __init__(
        self,
        owner: LinkOwner,
        connection: ConnectionId,
        *,
        listener: str | None,
        loop: asyncio.AbstractEventLoop,
        frame_size_bytes_max: int,
        cut_size_bytes_max: int = 0,
        other_size_bytes_max: int | None = None,
        piece: bytearray,
    ) -> None:
        """All links of a loop may share ``piece``, where the loop puts what it receives.

        See `pykraft.protocol.api.FrameReader` for the two sizes.
        """
        self.connection = connection
        self.listener = listener
        self.heard_s = loop.time()
        """Loop time at which bytes last arrived from the peer."""
        self.unsent_since_s = 0.0
        """Loop time of the first write since nothing was left to send."""
        self.descriptor = -1
        """The connection's file descriptor."""
        self.principal = ANONYMOUS
        """Who is at the other end, as far as that was proven."""
        self.address = ""
        """Its numeric address."""
        self.secured_endpoint: Endpoint | None = None
        """Where it leads, if this node dialed it over TLS, and nothing was heard from there yet."""
        self.sasl: SaslServer | SaslClient | None = None
        """What has authenticated the connection, and does so again."""
        self.is_open = False
        self.room_size_bytes = 0
        """Size of the large request that is being received or served; 0 if there is none."""
        self._waits_for_room = False
        self._is_large_served = False
        self._owner = owner
        self._loop = loop
        self._frames = FrameReader(frame_size_bytes_max, cut_size_bytes_max=cut_size_bytes_max)
        self._other_size_bytes_max = frame_size_bytes_max if other_size_bytes_max is None else other_size_bytes_max
        self._piece = piece
        self._window: Buffer = piece
        self._has_room = False
        self._next: Buffer | None = None
        self._is_queued = False
        self._is_awaited = False
        self._is_muted = False
        self._is_paused = False
        self._transport: asyncio.Transport | None = None

    @property
    def held_size_bytes(self) -> int:
        """Received bytes that were not passed on, without the next frame."""
        return self._frames.held_size_bytes

    @property
    def received_size_bytes(self) -> tuple[int, int]:
        """Received bytes of an unfinished frame, and its full size; (0, 0) while the size is unknown."""
        need_bytes = self._frames.need_size_bytes
        return (self._frames.held_size_bytes, need_bytes) if need_bytes else (0, 0)

    @property
    def unsent_size_bytes(self) -> int:
        """Bytes that the other machine has not confirmed; where the kernel does not tell, they count as confirmed."""
        if self._transport is None or self._transport.is_closing():
            return 0
        return self._transport.get_write_buffer_size() + unconfirmed_size_bytes(self._transport)

    @property
    def buffered_size_bytes(self) -> int:
        """Bytes that were written but that the system has not taken."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def send(self, parts: Sequence[Buffer]) -> None:
        """Write one frame (to a client, the answer to its request); ignored when the connection is not open."""
        if self.sasl is not None:
            parts = self._after_sasl(parts)
        self._write(parts)

    def _write(self, parts: Sequence[Buffer]) -> None:
        if not self.is_open or self._transport is None:
            return
        if not self.buffered_size_bytes:
            self.unsent_since_s = self._loop.time()
        write_parts(self._transport, parts)
        self._is_awaited = False
        if self._is_large_served:
            self._owner.link_gives_room_back(self)
            self._is_large_served, self.room_size_bytes, self._waits_for_room = False, 0, False
        if self._is_paused or self._next is not None or self._frames.held_size_bytes:
            # Not now: the host must not be called back within its own call of `send`.
            self._loop.call_soon(self._advance)

    def has_room(self, size_bytes: int) -> None:
        """There is room for the large request that waits."""
        self.room_size_bytes, self._waits_for_room = size_bytes, False
        self._set_reading()

    def pass_on(self) -> None:
        """Pass on the waiting request; a client's next request waits until this one is answered."""
        self._is_queued = False
        if self._next is None or not self.is_open:
            return
        self._pass_on()
        self._advance()

    def close(self) -> None:
        """Pass on nothing more; written bytes still go out, if the peer reads them soon."""
        self.is_open = False
        self._next = None
        if self._transport is None or self._transport.is_closing():
            # A lost connection is closed a turn before `connection_lost`. asyncio's TLS breaks if it is closed again.
            return
        self._transport.close()
        if self._is_paused or self._transport.get_write_buffer_size():
            # A peer that does not read must not keep a closed connection open for ever. Nor may one that ended its side
            # while nothing was read from it: asyncio's TLS forgets to close that.
            self._loop.call_later(LAST_WORDS_TIMEOUT_S, self._transport.abort)

    def abort(self) -> None:
        self.is_open = False
        self._next = None
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        stream = cast("asyncio.Transport", transport)  # uvloop's is one in all but name
        self._transport = stream
        self.is_open = True
        stream.set_write_buffer_limits(high=WRITE_BUFFER_SIZE_BYTES_MAX)
        if stream.get_extra_info("ssl_object") is not None:
            # asyncio decrypts into slices of it, and a slice of a bytearray is a copy.
            self._window = memoryview(self._piece)
        self.address = str((stream.get_extra_info("peername") or ("",))[0])
        if isinstance(self.sasl, SaslServer):
            self.principal = self.sasl.principal
        else:
            self.principal = principal_of(stream.get_extra_info("peercert"))
        raw = stream.get_extra_info("socket")
        if raw is not None:
            self.descriptor = raw.fileno()
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._owner.link_made(self)

    def get_buffer(self) -> Buffer:
        """Where the next bytes go, see `asyncio.BufferedProtocol`."""
        room = self._frames.room() if self.is_open else None
        self._has_room = room is not None
        return self._window if room is None else room

    def buffer_updated(self, nbytes: int) -> None:
        """See `asyncio.BufferedProtocol`; a stream that does not consist of frames closes the connection."""
        if not self.is_open:
            return
        self.heard_s = self._loop.time()
        if self._has_room:
            self._frames.filled(nbytes)
        else:
            with memoryview(self._piece) as piece:
                self._frames.put(bytes(piece[:nbytes]))
        self._owner.link_held(nbytes)
        self._advance()

    def connection_lost(self) -> None:
        self.is_open = False
        self._next = None
        self._owner.link_lost(self)

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`: the peer does not read, so we stop reading from it."""
        self._is_muted = True
        self._set_reading()

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`: the waiting frame goes first, and may mute the link again."""
        self._is_muted = False
        self._advance()

    def _advance(self) -> None:
        """Pass on what may be passed on; a client's request queues for its turn."""
        while self.is_open:
            if self._next is None:
                self._next = self._take()
            if self._next is None or self._is_muted or self._is_awaited:
                break
            # Clients take turns, so that many requests do not delay timers and the disk.
            if self.listener is not None:
                if not self._is_queued:
                    self._is_queued = True
                    self._owner.link_ready(self)
                break
            self._pass_on()
        if self.listener is not None:
            self._ask_for_room()
        self._set_reading()

    def _ask_for_room(self) -> None:
        size_bytes = self._frames.need_size_bytes
        if size_bytes <= LARGE_SIZE_BYTES_MIN or self._waits_for_room or not self.is_open:
            return
        if self._is_large_served:
            self._waits_for_room = True  # until that one is answered
        elif not self.room_size_bytes:
            self._waits_for_room = not self._owner.link_wants_room(self, size_bytes)
            self.room_size_bytes = 0 if self._waits_for_room else size_bytes

    def _pass_on(self) -> None:
        found, self._next = self._next, None
        assert found is not None, "only a waiting frame is passed on"
        self._is_large_served = self.listener is not None and len(found) > LARGE_SIZE_BYTES_MIN
        # A client's next request waits for this answer; a peer's answers need not wait.
        self._is_awaited = self.listener is not None
        if self.sasl is None or not self._is_of_sasl(self.sasl, found):
            self._owner.link_received(self, found)

    def _is_of_sasl(self, sasl: SaslServer | SaslClient, found: Buffer) -> bool:
        """Whether this frame is about authentication, which is answered here, or may not come any more."""
        try:
            answer = sasl.receive(found, self._loop.time())
        except ProtocolError as error:
            if isinstance(error, SaslRefusal) and error.delay_s:
                # Nothing more is passed on until then: this request is not answered yet.
                self._loop.call_later(error.delay_s, self._refuse_sasl, error)
            else:
                self._refuse_sasl(error)
            return True
        if answer:
            self._write(answer)
        return answer is not None

    def _after_sasl(self, parts: Sequence[Buffer]) -> Sequence[Buffer]:
        """What to write in place of a request for which the other end must be authenticated again first."""
        sasl = self.sasl
        return sasl.outgoing(list(parts), self._loop.time()) if isinstance(sasl, SaslClient) else parts

    def _refuse_sasl(self, error: ProtocolError) -> None:
        if not self.is_open:
            return
        if isinstance(error, SaslRefusal):
            self._write(error.answer)
        self._refuse(error)

    def _refuse(self, error: ProtocolError) -> None:
        self.close()
        self._owner.link_refused(self, str(error))

    def _take(self) -> Buffer | None:
        """The next whole frame; None without one, or if the stream is not frames and the link is closed."""
        held_before = self._frames.held_size_bytes
        if not held_before:
            return None
        try:
            return self._fitting(self._frames.take())
        except ProtocolError as error:
            self._refuse(error)
            return None
        finally:
            held_size_bytes = self._frames.held_size_bytes
            if self.is_open and held_size_bytes != held_before:
                self._owner.link_held(held_size_bytes - held_before)

    def _fitting(self, found: Buffer | None) -> Buffer | None:
        """This frame, unless it is larger than one of its kind may be. Errors: ProtocolError."""
        if found is not None and len(found) > self._other_size_bytes_max and bytes(found[:2]) != _FORWARD:
            text = (
                f"a request of {len(found)} bytes that is no Forward; at most {self._other_size_bytes_max} are accepted"
            )
            raise ProtocolError(text)
        return found

    def _set_reading(self) -> None:
        """Pause reading while a frame waits, or the peer does not read; its bytes then wait on its side."""
        is_to_pause = self._is_muted or self._next is not None or self._waits_for_room
        if is_to_pause == self._is_paused or self._transport is None or self._transport.is_closing():
            return
        self._is_paused = is_to_pause
        if is_to_pause:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

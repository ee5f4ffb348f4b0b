"""One TCP connection, in either direction, as the frames that come in on it.

Owns a transport, the unfinished frame and the frames that wait. Invariant: a peer that does not read what it is sent
is not read from, and none of its frames is passed on, until it has read; so what can pile up is one write buffer and
one answer, and what came in one piece of the stream. It refuses to know what is in a frame, and other connections.

Source: Kafka's ``KafkaChannel`` (muting) and ``NetworkReceive``; asyncio's ``Protocol``.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol, cast

from pykraft.errors import ProtocolError
from pykraft.host.ports import ConnectionId
from pykraft.protocol.frame import FrameReader
from pykraft.server.socket_queue import unconfirmed_size_bytes
from pykraft.types import Buffer

WRITE_BUFFER_SIZE_BYTES_MAX: Final = 1024 * 1024
"""Unsent bytes of one connection above which it is no longer read from."""
LAST_WORDS_TIMEOUT_S: Final = 2.0
"""How long a connection that was closed may take to send what was written."""


class LinkOwner(Protocol):
    """Who keeps the links."""

    def link_made(self, link: Link) -> None:
        """The connection stands."""
        ...

    def link_received(self, link: Link, frame: Buffer) -> None:
        """One whole frame, without its length."""
        ...

    def link_held(self, change_bytes: int) -> None:
        """The unfinished frame of a link grew or went by so many bytes."""
        ...

    def link_refused(self, link: Link, reason: str) -> None:
        """The peer does not speak in frames; the link is closed already."""
        ...

    def link_lost(self, link: Link) -> None:
        """The connection ended; called exactly once for each link that was made, also after `Link.close`."""
        ...


class Link(asyncio.Protocol):
    """One connection; ``listener`` is the name of the one that accepted it, None for one that was dialed."""

    def __init__(
        self,
        owner: LinkOwner,
        connection: ConnectionId,
        *,
        listener: str | None,
        loop: asyncio.AbstractEventLoop,
        frame_size_bytes_max: int,
    ) -> None:
        self.connection = connection
        self.listener = listener
        self.heard_s = loop.time()
        """Loop time at which the peer was heard of last."""
        self.is_open = False
        self._owner = owner
        self._loop = loop
        self._frames = FrameReader(frame_size_bytes_max)
        self._waiting: deque[Buffer] = deque()
        self._is_muted = False
        self._transport: asyncio.Transport | None = None

    @property
    def held_size_bytes(self) -> int:
        """Bytes of an unfinished frame."""
        return self._frames.held_size_bytes

    @property
    def received_size_bytes(self) -> tuple[int, int]:
        """Bytes of an unfinished frame, and what it will be; (0, 0) while its size is not known."""
        need_bytes = self._frames.need_size_bytes
        return (self._frames.held_size_bytes, need_bytes) if need_bytes else (0, 0)

    @property
    def unsent_size_bytes(self) -> int:
        """Bytes that the other machine has not confirmed; what the kernel does not tell counts as confirmed."""
        if self._transport is None or self._transport.is_closing():
            return 0
        return self._transport.get_write_buffer_size() + unconfirmed_size_bytes(self._transport)

    def send(self, parts: Sequence[Buffer]) -> None:
        """Write one frame; ignored when the connection does not stand."""
        if self.is_open and self._transport is not None:
            self._transport.writelines(parts)

    def close(self) -> None:
        """Pass nothing on any more; what was written still goes out, if the peer reads it soon."""
        self.is_open = False
        self._waiting.clear()
        if self._transport is None:
            return
        self._transport.close()
        if self._transport.get_write_buffer_size():
            self._loop.call_later(LAST_WORDS_TIMEOUT_S, self._transport.abort)

    def abort(self) -> None:
        """Close, and let go of what was written."""
        self.is_open = False
        self._waiting.clear()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        stream = cast("asyncio.Transport", transport)  # uvloop's is one in all but name
        self._transport = stream
        self.is_open = True
        stream.set_write_buffer_limits(high=WRITE_BUFFER_SIZE_BYTES_MAX)
        raw = stream.get_extra_info("socket")
        if raw is not None:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._owner.link_made(self)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`; a stream that is not frames is closed."""
        if not self.is_open:
            return
        self.heard_s = self._loop.time()
        held_before = self.held_size_bytes
        frames: list[Buffer] = []
        fault: ProtocolError | None = None
        try:
            frames = self._frames.feed(data)
        except ProtocolError as error:
            fault = error
        if self.held_size_bytes != held_before:
            self._owner.link_held(self.held_size_bytes - held_before)
        if fault is not None:
            self.close()
            self._owner.link_refused(self, str(fault))
        elif self.is_open:
            self._waiting.extend(frames)
            self._pass_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        del exc
        self.is_open = False
        self._waiting.clear()
        self._owner.link_lost(self)

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`: the peer does not read, so it is not read from."""
        self._is_muted = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`: the frames that wait come first, and may mute the link again."""
        self._is_muted = False
        self._pass_on()
        if not self._is_muted and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _pass_on(self) -> None:
        """Pass the waiting frames on, as long as the peer reads what it gets for them."""
        while self._waiting and not self._is_muted:
            self._owner.link_received(self, self._waiting.popleft())

"""What one node sends back: the bytes of its answers, received where their frame is put together.

`DialedConnection` puts the frames together, and says where the next bytes of a large one belong. The loop receives them
there: an answer of 4 MiB is copied once on its way from the system, and not once more in the loop and twice in a frame.

Invariant: nobody waits for ever. A waiting `answer` ends with the frame, with bytes that are not one, or with the
connection; and a node that sends something while nobody waits loses the connection.

Source: ``asyncio.BufferedProtocol``.
"""

from __future__ import annotations

import asyncio
import errno
from typing import Final, cast

from pykraft.errors import ProtocolError
from pykraft.rpc.connection import DialedConnection
from pykraft.types import Buffer

_PIECE_SIZE_BYTES: Final = 64 * 1024
"""Most bytes received at a time while no large frame is under way."""


class AnswerStream(asyncio.BufferedProtocol):
    """Create it with ``loop.create_connection``."""

    def __init__(self, wire: DialedConnection, loop: asyncio.AbstractEventLoop) -> None:
        self._wire = wire
        self._piece = bytearray(_PIECE_SIZE_BYTES)
        self._has_room = False
        self._transport: asyncio.Transport | None = None
        self._awaited: asyncio.Future[Buffer] | None = None
        self._closed = loop.create_future()
        self._loop = loop

    @property
    def transport(self) -> asyncio.Transport:
        """Where requests are written."""
        assert self._transport is not None, "the connection is made first"
        return self._transport

    @property
    def is_open(self) -> bool:
        """False once either end has closed the connection, as far as the loop has noticed."""
        return not self._closed.done() and not self.transport.is_closing()

    async def answer(self) -> Buffer:
        """The next frame.

        Errors: OSError at the end of the stream, ProtocolError for bytes that are not a frame. Nothing comes after
        either.
        """
        assert self._awaited is None, "one request at a time"
        if self._closed.done():
            raise _ended(self._closed.result())
        self._awaited = self._loop.create_future()
        try:
            return await self._awaited
        finally:
            self._awaited = None

    async def close(self) -> None:
        """Close the connection at once."""
        self.transport.abort()
        await self._closed

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.Protocol`."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but name

    def get_buffer(self, sizehint: int) -> Buffer:
        """See `asyncio.BufferedProtocol`."""
        del sizehint
        room = self._wire.room()
        self._has_room = room is not None
        return self._piece if room is None else room

    def buffer_updated(self, nbytes: int) -> None:
        """See `asyncio.BufferedProtocol`; bytes that nobody waits for end the connection."""
        if self._awaited is None or self._awaited.done():
            self.transport.abort()
            return
        try:
            if self._has_room:
                frame = self._wire.filled(nbytes)
            else:
                with memoryview(self._piece) as piece:
                    frame = self._wire.received(bytes(piece[:nbytes]))
        except ProtocolError as error:
            self._awaited.set_exception(error)
            return
        if frame is not None:
            self._awaited.set_result(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._closed.set_result(exc)
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_exception(_ended(exc))


def _ended(problem: Exception | None) -> OSError:
    """The error for the end of the stream."""
    return problem if isinstance(problem, OSError) else ConnectionResetError(errno.ECONNRESET, "end of the stream")

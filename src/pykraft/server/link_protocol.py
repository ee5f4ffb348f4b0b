"""What asyncio calls for one connection; each event goes to its `Link`.

A class of its own, because asyncio wants a subclass of its `BufferedProtocol`, and a compiled class cannot be one.

Source: asyncio's ``BufferedProtocol``.
"""

import asyncio

from pykraft.server.link import Link
from pykraft.types import Buffer


class LinkProtocol(asyncio.BufferedProtocol):
    """See the methods of the same name in `Link`."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is established."""
        self._link.connection_made(transport)

    def get_buffer(self, sizehint: int) -> Buffer:
        """Where the next bytes go."""
        del sizehint
        return self._link.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes have arrived there."""
        self._link.buffer_updated(nbytes)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection ended."""
        del exc
        self._link.connection_lost()

    def pause_writing(self) -> None:
        """The peer does not read."""
        self._link.pause_writing()

    def resume_writing(self) -> None:
        """The peer reads again."""
        self._link.resume_writing()

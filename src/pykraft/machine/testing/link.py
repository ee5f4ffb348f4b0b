"""A connection between two simulated processes, for the requests that one node's clients forward to another.

It carries the same bytes as TCP would, over the world's network: frames are delayed, held back by cuts, and lost with
the process at either end.

Source: ours; `pykraft.client.remote.connection.Connection` is the one of a program.
"""

from __future__ import annotations

import asyncio
from typing import Any

from pykraft.errors import ProtocolError, UnreachableError
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.rpc.connection import DialedConnection
from pykraft.rpc.context import RpcContext
from pykraft.sim.machine.node import Process
from pykraft.types import Buffer, Endpoint


class SimulatedLink:
    """See `pykraft.machine.runtime.ForwardLink`; a guest of its process. Create it with `open_link`."""

    def __init__(self, process: Process, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.is_open = True
        self._wire = DialedConnection("pykraft-forward")
        self._process = process
        self._news: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        """The next frame; the first one, empty, says that the dial succeeded."""
        self._connection = process.guests.dial(self, endpoint)

    def connected(self) -> None:
        """See `pykraft.sim.machine.guests.ProcessGuest`."""
        self._settle(b"")

    def closed(self) -> None:
        """See `pykraft.sim.machine.guests.ProcessGuest`."""
        self.is_open = False
        if not self._news.done():
            self._news.set_exception(UnreachableError(self.endpoint, "the connection is closed"))
            self._news.exception()  # nobody may be waiting

    def received(self, frame: bytes) -> None:
        """See `pykraft.sim.machine.guests.ProcessGuest`."""
        self._settle(frame)

    def offers_key(self, key: ApiKey) -> bool:
        """See `pykraft.machine.runtime.ForwardLink`."""
        return self._wire.offers_key(key)

    async def negotiate(self, timeout_ms: int) -> None:
        """Wait for the connection, and learn which versions the other end supports. Errors: UnreachableError."""
        await self._next(timeout_ms)
        self._wire.negotiated(await self._exchange(self._wire.negotiate(), timeout_ms))

    async def ask_body(self, key: ApiKey, body: Body, *, timeout_ms: int) -> Body:
        """See `pykraft.machine.runtime.ForwardLink`."""
        try:
            return self._wire.answered_body(await self._exchange(self._wire.ask_body(key, body), timeout_ms))
        except ProtocolError as error:
            await self.close()
            raise UnreachableError(self.endpoint, str(error)) from error

    async def close(self) -> None:
        """See `pykraft.machine.runtime.ForwardLink`."""
        self.is_open = False
        self._process.guests.close(self._connection)

    async def _exchange(self, request: list[Buffer], timeout_ms: int) -> bytes:
        if not self.is_open:
            raise UnreachableError(self.endpoint, "the connection is closed")
        self._news = asyncio.get_running_loop().create_future()
        self._process.guests.send(self._connection, request)
        return await self._next(timeout_ms)

    async def _next(self, timeout_ms: int) -> bytes:
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                return await self._news
        except TimeoutError as error:
            await self.close()  # its answer may still come, so nobody may use it again
            raise UnreachableError(self.endpoint, f"no answer within {timeout_ms} ms") from error
        except BaseException:
            await self.close()
            raise

    def _settle(self, frame: bytes) -> None:
        if not self._news.done():
            self._news.set_result(frame)


async def open_link(process: Process, endpoint: Endpoint, context: RpcContext, timeout_ms: int) -> Any:  # noqa: ANN401
    """An open link, see `pykraft.machine.runtime.ConnectForward`."""
    del context
    link = SimulatedLink(process, endpoint)
    await link.negotiate(timeout_ms)
    return link

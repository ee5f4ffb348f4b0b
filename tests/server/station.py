"""Links that listen on the loopback interface, a user that records its events, and clients.

Invariant: when `on_station` ends, everything is closed, and the loop has reported no error.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from random import Random
from typing import Any

from pykraft.host.ports import ConnectionId
from pykraft.local.voters import HOST, free_ports
from pykraft.protocol.api import frame
from pykraft.protocol.api import frame as frame_parts
from pykraft.security.principal import RemoteEnd
from pykraft.server.binding import Names, listening_sockets
from pykraft.server.links import LinkLimits, Links
from pykraft.server.secured import NodeTls
from pykraft.types import Buffer, Endpoint

TIMEOUT_S = 10.0
LISTENER = "PLAINTEXT"
LIMITS = LinkLimits(
    request_size_bytes_max=1024 * 1024,
    answer_size_bytes_max=8 * 1024 * 1024,
    idle_ms_max=600_000,
    dial_ms_max=5_000,
    accepted_max=100,
)


class User:
    """Notes what it hears; answers frames if it is told how."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, int]] = []
        self.ends: list[RemoteEnd] = []
        self.frames: list[bytes] = []
        self.reports: list[str] = []
        self.failures: list[BaseException] = []
        self.reasons: list[str] = []
        self.answer: Callable[[ConnectionId, bytes], None] = lambda connection, frame: None
        self._changed = asyncio.Event()

    def link_accepted(self, connection: ConnectionId, listener: str, end: RemoteEnd) -> None:
        assert listener == LISTENER
        self.ends.append(end)
        self._note("accepted", connection)

    def answer_api_versions(self, listener: str, frame: Buffer) -> list[Buffer]:
        assert listener == LISTENER
        return frame_parts([b"versions"])

    def link_connected(self, connection: ConnectionId, end: RemoteEnd) -> None:
        self.ends.append(end)
        self._note("connected", connection)

    def link_closed(self, connection: ConnectionId, *, is_refused: bool = False, reason: str = "") -> None:
        self.reasons.append(reason)
        self._note("refused" if is_refused else "closed", connection)

    def link_received(self, connection: ConnectionId, frame: Buffer) -> None:
        self.frames.append(bytes(frame))
        self._changed.set()
        self.answer(connection, bytes(frame))

    def report_connection(self, text: str) -> None:
        self.reports.append(text)
        self._changed.set()

    def fail(self, error: BaseException) -> None:
        self.failures.append(error)
        self._changed.set()

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():
                await self._changed.wait()
                self._changed.clear()

    async def hears(self, *events: tuple[str, int]) -> None:
        await self.wait_for(lambda: len(self.heard) >= len(events))
        assert self.heard == list(events)

    def _note(self, event: str, connection: ConnectionId) -> None:
        self.heard.append((event, connection))
        self._changed.set()


class Station:
    """Links with a user, and the endpoint where they listen."""

    def __init__(self, links: Links, user: User, endpoint: Endpoint) -> None:
        self.links = links
        self.user = user
        self.endpoint = endpoint

    async def client(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.endpoint.host, self.endpoint.port)


@asynccontextmanager
async def on_station(
    *, names: Callable[[asyncio.AbstractEventLoop], Names] = Names, tls: NodeTls | None = None, **limits: Any
) -> AsyncIterator[Station]:
    """Links that listen within the block; everything is closed afterwards, and nothing was our bug."""
    loop = asyncio.get_running_loop()
    unexpected: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: unexpected.append(context))
    [port] = free_ports(1)
    user = User()
    links = Links(loop, user, replace(LIMITS, **limits), names=names(loop), tls=tls)
    await links.listen(LISTENER, listening_sockets(Endpoint(HOST, port)))
    try:
        yield Station(links, user, Endpoint(HOST, port))
    finally:
        links.close_all()
    await asyncio.wait_for(everything_closed(loop), TIMEOUT_S)
    assert unexpected == []


async def everything_closed(loop: asyncio.AbstractEventLoop) -> None:
    """Let the loop tell all transports that they are closed."""
    await turns(loop, 10)


async def turns(loop: asyncio.AbstractEventLoop, count: int) -> None:
    """Let the loop turn so many times."""
    for _ in range(count):
        turn = loop.create_future()
        loop.call_soon(turn.set_result, None)
        await turn


async def closed_by_peer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Wait until the other end closes, then close too."""
    async with asyncio.timeout(TIMEOUT_S):
        with suppress(ConnectionError):
            while await reader.read(65_536):
                pass
    await hang_up(writer)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def reset(writer: asyncio.StreamWriter) -> None:
    """Break the connection off."""
    with suppress(AttributeError):  # Python 3.11.2 cannot abort over TLS what streams have closed a second time
        writer.transport.abort()
    with suppress(OSError):
        await writer.wait_closed()


async def send_in_pieces(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pieces: Sequence[bytes], random: Random
) -> None:
    """Write one after the other, and read for a moment in between, or not at all. Errors: OSError."""
    for piece in pieces:
        writer.write(piece)
        with suppress(TimeoutError):
            await asyncio.wait_for(reader.read(1 << 20), random.choice([0, 0.003, 0.01]))


def framed(message: bytes) -> bytes:
    return b"".join(frame([message]))

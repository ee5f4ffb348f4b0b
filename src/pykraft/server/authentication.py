"""SASL on a new connection, at either end: until it is done, the connection is none of the node's.

Then it is handed over to the protocol that it is for, with the bytes that came early. Invariants: a frame before that
has at most `SASL_FRAME_SIZE_BYTES_MAX` bytes; who is refused is told so, and the connection closed. A refusal that is
delayed counts as a handshake under way meanwhile, so these are bounded, and the oldest gives way to others.

Source: Kafka's ``KafkaChannel.prepare``, ``sasl.server.max.receive.size`` (its default is 512 KiB),
``Selector.DelayedAuthenticationFailureClose``.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, cast

from pykraft.errors import ProtocolError
from pykraft.protocol.api import FrameReader
from pykraft.server.link import write_parts
from pykraft.server.sasl_client import SaslClient
from pykraft.server.sasl_server import SaslRefusal, SaslServer
from pykraft.types import Buffer

SASL_FRAME_SIZE_BYTES_MAX: Final = 16 * 1024
"""Largest frame before authentication: tokens with many claims have some KiB."""


async def connect(
    then: asyncio.BufferedProtocol, sasl: SaslServer | SaslClient | None, address: str, port: int, tls: dict[str, Any]
) -> asyncio.BaseTransport:
    """Connect, authenticate if that is wanted, and give the connection to ``then``. Errors: OSError."""
    first = then if sasl is None else Authentication(sasl, then)
    transport, _ = await asyncio.get_running_loop().create_connection(lambda: first, address, port, **tls)
    if isinstance(first, Authentication):
        await first.finished()
    return transport


class Authentication(asyncio.Protocol):
    """Authenticates one connection; ``then`` gets it afterwards. Await `finished` when it is connected."""

    def __init__(
        self,
        sasl: SaslServer | SaslClient,
        then: asyncio.BufferedProtocol,
        *,
        answer_versions: Callable[[Buffer], list[Buffer]] | None = None,
    ) -> None:
        """``answer_versions`` answers ApiVersions, for an end that accepts connections."""
        self._sasl = sasl
        self._then = then
        self._answer_versions = answer_versions
        self._loop = asyncio.get_running_loop()
        self._frames = FrameReader(SASL_FRAME_SIZE_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._is_refused = False
        self._outcome: asyncio.Future[None] = self._loop.create_future()
        # Nobody waits for it if the task ended when the connection was made.
        self._outcome.add_done_callback(lambda outcome: outcome.cancelled() or outcome.exception())

    async def finished(self) -> None:
        """Wait until the connection is handed over; if it is not, it is closed. Errors: OSError, with the reason."""
        assert self._transport is not None, "it is connected first"
        try:
            await self._outcome
        except ProtocolError as error:
            raise OSError(str(error)) from error
        finally:
            if self._outcome.cancelled():
                self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but name
        if isinstance(self._sasl, SaslClient):
            write_parts(self._transport, self._sasl.begin())

    def data_received(self, data: bytes) -> None:
        transport = self._transport
        if transport is None or self._outcome.done() or self._is_refused:
            return
        try:
            self._frames.put(data)
            while not self._sasl.is_done and (frame := self._frames.take()) is not None:
                answer = self._sasl.receive(frame, self._loop.time())
                if answer is None:
                    assert self._answer_versions is not None, "only a client asks"
                    answer = self._answer_versions(frame)
                write_parts(transport, answer)
        except ProtocolError as error:
            self._fail(transport, error)
            return
        if self._sasl.is_done:
            self._hand_over(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._outcome.done():
            closed = OSError("it closed the connection before SASL was done: perhaps it speaks no SASL")
            self._outcome.set_exception(exc if isinstance(exc, OSError) else closed)

    def _fail(self, transport: asyncio.Transport, error: ProtocolError) -> None:
        if isinstance(error, SaslRefusal) and error.delay_s:
            self._is_refused = True
            transport.pause_reading()
            self._loop.call_later(error.delay_s, self._end, transport, error)
        else:
            self._end(transport, error)

    def _end(self, transport: asyncio.Transport, error: ProtocolError) -> None:
        if self._outcome.done():  # it has given way to others
            return
        if isinstance(error, SaslRefusal) and error.answer:
            write_parts(transport, error.answer)
        transport.close()
        self._outcome.set_exception(error)

    def _hand_over(self, transport: asyncio.Transport) -> None:
        then, rest = self._then, memoryview(self._frames.untaken)
        transport.set_protocol(then)
        then.connection_made(transport)
        while rest:
            room = memoryview(then.get_buffer(len(rest)))[: len(rest)]
            room[:] = rest[: len(room)]
            then.buffer_updated(len(room))
            rest = rest[len(room) :]
        self._outcome.set_result(None)

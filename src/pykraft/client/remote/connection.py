"""A client's connection to one node: it negotiates versions when opened, then sends one request at a time.

Invariant: every failure (no node there, silence, foreign bytes, the end of the stream) becomes one `UnreachableError`
that names the node and says what it did, and closes the connection. The caller's time limits each wait, and each frame
has a size limit. The bytes of a large answer are received where its frame is put together, so they are copied once.

Source: KIP-35, KIP-511; Kafka's ``NetworkClient``; ``asyncio.BufferedProtocol``.
"""

import asyncio
import errno
from collections.abc import Callable, Collection
from functools import partial
from typing import Final, TypeVar, cast

from pykraft.core.messages import Request
from pykraft.errors import ProtocolError, UnreachableError
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.rpc import codec
from pykraft.rpc.codec import Answer
from pykraft.rpc.connection import DialedConnection
from pykraft.rpc.context import RpcContext
from pykraft.security.contexts import Side, TlsContext
from pykraft.security.sasl import SaslCredentials
from pykraft.security.settings import IN_THE_CLEAR, Security
from pykraft.server.authentication import connect
from pykraft.server.binding import Names, in_words, tls_options
from pykraft.server.link import write_parts
from pykraft.server.sasl_client import SaslClient
from pykraft.text.words import in_seconds
from pykraft.types import Buffer, Endpoint

_PIECE_SIZE_BYTES: Final = 64 * 1024
"""Most bytes received at a time while no large frame is under way."""


class AnswerStream(asyncio.BufferedProtocol):
    """Create it with ``loop.create_connection``."""

    def __init__(self, wire: DialedConnection, loop: asyncio.AbstractEventLoop) -> None:
        self._wire = wire
        # A view: with TLS, asyncio decrypts into slices of it, and a slice of a bytearray is a copy.
        self._piece = memoryview(bytearray(_PIECE_SIZE_BYTES))
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
        """The next frame. Errors: OSError at the end of the stream, ProtocolError for bytes that are no frame."""
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
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but name

    def get_buffer(self, sizehint: int) -> Buffer:
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
            wire = self._wire
            frame = wire.filled(nbytes) if self._has_room else wire.received(bytes(self._piece[:nbytes]))
        except ProtocolError as error:
            self._awaited.set_exception(error)
            return
        if frame is not None:
            self._awaited.set_result(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed.set_result(exc)
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_exception(_ended(exc))


def _ended(problem: Exception | None) -> OSError:
    return problem if isinstance(problem, OSError) else ConnectionResetError(errno.ECONNRESET, "end of the stream")


T = TypeVar("T")


class Connection:
    """An open connection with negotiated versions. Create it with `ClientDialer`."""

    def __init__(
        self, endpoint: Endpoint, wire: DialedConnection, stream: AnswerStream, sasl: SaslClient | None = None
    ) -> None:
        self.endpoint = endpoint
        self._sasl = sasl
        self._wire = wire
        self._stream = stream
        self._is_closed = False

    def offers(self, message: Request) -> bool:
        """True when the other end supports the API of this request, in any version."""
        return self._wire.offers(message)

    def offers_key(self, key: ApiKey) -> bool:
        """True when the other end supports this API, in any version."""
        return self._wire.offers_key(key)

    @property
    def is_open(self) -> bool:
        """False once either end has closed the connection, as far as the loop has noticed."""
        return not self._is_closed and self._stream.is_open

    async def ask(self, message: Request, context: RpcContext, *, timeout_ms: int) -> Answer:
        """Send a request of the quorum's protocol in the newest version that both ends support; returns the answer.

        Errors: UnreachableError; ProtocolError (UNSUPPORTED_VERSION) when that version cannot express the request.
        """
        key = codec.api_key_of(message)
        await self._check_offered(key)
        read = partial(self._wire.answered, context=context)
        return await self._exchange(key, self._wire.ask(message, context), read, timeout_ms)

    async def ask_body(self, key: ApiKey, body: Body, *, timeout_ms: int) -> Body:
        """Send a request that is not part of the quorum's protocol, as a wire body; returns the answer's body.

        Errors: UnreachableError.
        """
        await self._check_offered(key)
        return await self._exchange(key, self._wire.ask_body(key, body), self._wire.answered_body, timeout_ms)

    async def close(self) -> None:
        """Close the connection at once."""
        self._is_closed = True
        await self._stream.close()

    async def negotiate(self, timeout_ms: int) -> None:
        """Learn which versions the other end supports; must be the first request. Errors: UnreachableError."""
        await self._exchange(ApiKey.API_VERSIONS, self._wire.negotiate(), self._wire.negotiated, timeout_ms)

    async def _check_offered(self, key: ApiKey) -> None:
        if self._is_closed:
            raise UnreachableError(self.endpoint, "the connection was closed because an earlier request was given up")
        try:
            self._wire.version_of(key)
        except ProtocolError as error:
            raise await self._unusable(key, error) from error

    async def _exchange(self, key: ApiKey, request: list[Buffer], read: Callable[[Buffer], T], timeout_ms: int) -> T:
        """Send one frame, wait for one and read it. Errors: UnreachableError, after closing the connection."""
        data = await self._round_trip(key, request, timeout_ms)
        try:
            return read(data)
        except ProtocolError as error:
            raise await self._unusable(key, error) from error

    async def _round_trip(self, key: ApiKey, request: list[Buffer], timeout_ms: int) -> Buffer:
        """Send one frame and wait for one. Errors: UnreachableError, after closing the connection."""
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                return await self._answer(request)
        except TimeoutError:
            doubt = ": is it a node of a quorum?" if key is ApiKey.API_VERSIONS else ""
            problem = f"it accepts connections, but did not answer {_name(key)} within {in_seconds(timeout_ms)}{doubt}"
        except ProtocolError as error:
            problem = f"it is not a node of a quorum: it answers {_name(key)} with {error}"
        except OSError as error:
            problem = f"it closed the connection when it was asked for {_name(key)} ({in_words(error)})"
            if key is ApiKey.API_VERSIONS:
                # With TLS 1.3 a client has finished its handshake when the other end looks at its certificate.
                is_tls = self._stream.transport.get_extra_info("ssl_object") is not None
                problem += ": perhaps it refuses the certificate" if is_tls else ": perhaps it speaks TLS only"
            elif self._sasl is None and self.offers_key(ApiKey.SASL_AUTHENTICATE):
                problem += ": perhaps it wants SASL"
        # Cancelled, say: the answer may still arrive, so nobody may use this connection again.
        except BaseException:
            await self.close()
            raise
        await self.close()
        raise UnreachableError(self.endpoint, problem)

    async def _answer(self, request: list[Buffer]) -> Buffer:
        """Errors: as `AnswerStream.answer`, and ProtocolError if the other end refuses to go on."""
        stream, sasl, now_s = self._stream, self._sasl, asyncio.get_running_loop().time
        write_parts(stream.transport, request if sasl is None else sasl.outgoing(request, now_s()))
        answer = await stream.answer()
        while sasl is not None and (more := sasl.receive(answer, now_s())) is not None:
            write_parts(stream.transport, more)
            answer = await stream.answer()
        return answer

    async def _unusable(self, key: ApiKey, error: ProtocolError) -> UnreachableError:
        await self.close()
        return UnreachableError(self.endpoint, f"{_name(key)}: {error}")


class ClientDialer:
    """Connects under one client id, with one memory of names; ``resolved`` gets the addresses of a host."""

    def __init__(
        self,
        client_id: str,
        *,
        security: Security = IN_THE_CLEAR,
        names: Names | None = None,
        resolved: Callable[[Endpoint, Collection[str]], object] = lambda *_: None,
    ) -> None:
        """Without ``names`` they are looked up on the loop of the first call. Errors: ConfigError for certificates."""
        self._tls = TlsContext(security, Side.CLIENT) if security.uses_tls else None
        self._credentials = SaslCredentials(security) if security.uses_sasl else None
        self._client_id = client_id
        self._names = names
        self._resolved = resolved

    async def connect(self, endpoint: Endpoint, timeout_ms: int) -> Connection:
        """Connect within this time, then negotiate within the same time again. Errors: UnreachableError."""
        connection = await self._dial(endpoint, timeout_ms)
        await connection.negotiate(timeout_ms)
        return connection

    async def _dial(self, endpoint: Endpoint, timeout_ms: int) -> Connection:
        """Try the addresses of a host in turn, each with its share of the time. Errors: UnreachableError."""
        loop = asyncio.get_running_loop()
        if self._names is None:
            self._names = Names(loop)
        end_s = loop.time() + timeout_ms / 1_000
        try:
            async with asyncio.timeout_at(end_s):
                addresses = await self._names.addresses(endpoint)
        except TimeoutError:
            raise UnreachableError(endpoint, f"its name was not resolved within {in_seconds(timeout_ms)}") from None
        except OSError as error:
            raise UnreachableError(endpoint, f"its name cannot be resolved ({in_words(error)})") from error
        self._resolved(endpoint, addresses)
        problem, cause = "it has no address", None
        wire = DialedConnection(self._client_id)
        if self._tls is not None:
            self._tls.refresh()  # who keeps a client for months renews its certificate meanwhile
        tls = tls_options(None if self._tls is None else self._tls.current, endpoint.host)
        for at, address in enumerate(addresses):
            share_s = max(0.0, end_s - loop.time()) / (len(addresses) - at)
            try:
                async with asyncio.timeout(share_s):
                    stream = AnswerStream(wire, loop)
                    sasl = None if self._credentials is None else SaslClient(self._credentials, self._client_id)
                    await connect(stream, sasl, address, endpoint.port, tls)
            except TimeoutError:
                problem = f"nothing accepted a connection within {in_seconds(timeout_ms)}"
            except OSError as error:
                words = in_words(error)
                problem, cause = words if error.errno is None else words.lower(), error
            except (ValueError, OverflowError) as error:  # asyncio raises these for an invalid address
                problem = f"cannot connect ({error})"
            else:
                return Connection(endpoint, wire, stream, sasl)
        raise UnreachableError(endpoint, problem) from cause


def _name(key: ApiKey) -> str:
    return "".join(word.capitalize() for word in key.name.split("_"))

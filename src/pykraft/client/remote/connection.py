"""A client's connection to one node: it negotiates versions when opened, then sends one request at a time.

This module owns a TCP stream, the versions that the other end supports, and the correlation ids. Invariant: every
failure (no node there, silence, foreign bytes, the end of the stream) becomes one `UnreachableError` that names the
node and says what it did, and closes the connection. The caller's time limits each wait, and each frame has a size
limit. The caller deals with leaders, retries and the meaning of answers.

Source: KIP-35, KIP-511; Kafka's ``NetworkClient``.
"""

from __future__ import annotations

import asyncio
import errno
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from pykraft import __version__
from pykraft.core.messages import Request
from pykraft.errors import ProtocolError, UnreachableError
from pykraft.protocol.api import decode_response, encode_request
from pykraft.protocol.frame import FrameReader, frame
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body, Versions
from pykraft.rpc import api_versions, codec
from pykraft.rpc.codec import Answer
from pykraft.rpc.context import RpcContext
from pykraft.server.names import Names
from pykraft.server.write import write_parts
from pykraft.types import Buffer, Endpoint

FRAME_SIZE_BYTES_MAX: Final = 104_857_600
"""Largest answer that is read."""
FIRST_FRAME_SIZE_BYTES_MAX: Final = 64 * 1024
"""Largest answer to ApiVersions, which comes before we know anything about the other end."""
NEGOTIATION_VERSION: Final = 3
"""The version of ApiVersions that every Kafka with KRaft supports, so one request is enough."""
_PIECE_SIZE_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The client: its client id, the partition that its requests are about, and the name lookups of its loop."""

    client_id: str
    context: RpcContext
    names: Names


class Connection:
    """An open connection with negotiated versions. Create it with `connect`."""

    def __init__(self, endpoint: Endpoint, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.endpoint = endpoint
        self._reader = reader
        self._writer = writer
        self._frames = FrameReader(FIRST_FRAME_SIZE_BYTES_MAX)
        self._versions: dict[int, Versions] = {}
        self._next_wire_id = 0

    def offers(self, message: Request) -> bool:
        """True when the other end supports the API of this request, in any version."""
        return codec.api_key_of(message) in self._versions

    async def ask(self, message: Request, caller: Caller, *, timeout_ms: int) -> Answer:
        """Send a request of the quorum's protocol in the newest version that both ends support; returns the answer.

        Errors: UnreachableError; ProtocolError (UNSUPPORTED_VERSION) when that version cannot express the request.
        """
        key = codec.api_key_of(message)
        version, wire_id = await self._begin(key)
        data = await self._exchange(
            key, codec.encode_request(message, version, wire_id, caller.client_id, caller.context), timeout_ms
        )
        try:
            answer = codec.decode_answer(key, version, data, caller.context)
            _check_id(answer.correlation_id, wire_id)
        except ProtocolError as error:
            raise await self._unusable(key, error) from error
        return answer

    async def ask_body(self, key: ApiKey, body: Body, caller: Caller, *, timeout_ms: int) -> Body:
        """Send a request that is not part of the quorum's protocol, as a wire body; returns the answer's body.

        Errors: UnreachableError.
        """
        version, wire_id = await self._begin(key)
        return await self._call(key, version, wire_id, body, caller, timeout_ms)

    async def close(self) -> None:
        """Close the connection at once."""
        self._writer.transport.abort()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def negotiate(self, caller: Caller, timeout_ms: int) -> None:
        """Learn which versions the other end supports; must be the first request. Errors: UnreachableError."""
        body = api_versions.request_to_wire(__version__)
        key = ApiKey.API_VERSIONS
        answer = await self._call(key, NEGOTIATION_VERSION, self._take_wire_id(), body, caller, timeout_ms)
        try:
            self._versions = api_versions.response_from_wire(answer)
        except ProtocolError as error:
            raise await self._unusable(key, error) from error
        # Only a node that speaks Kafka's protocol may send large frames.
        self._frames.size_bytes_max = FRAME_SIZE_BYTES_MAX

    async def _begin(self, key: ApiKey) -> tuple[int, int]:
        """Version and correlation id of the next request. Errors: UnreachableError when the node lacks this API."""
        try:
            return api_versions.common_version(key, self._versions), self._take_wire_id()
        except ProtocolError as error:
            raise await self._unusable(key, error) from error

    async def _call(self, key: ApiKey, version: int, wire_id: int, body: Body, caller: Caller, timeout_ms: int) -> Body:
        request = encode_request(key, version, wire_id, caller.client_id, body)
        data = await self._exchange(key, request, timeout_ms)
        try:
            answered_id, answer = decode_response(key, version, data)
            _check_id(answered_id, wire_id)
        except ProtocolError as error:
            raise await self._unusable(key, error) from error
        return answer

    async def _exchange(self, key: ApiKey, request: list[Buffer], timeout_ms: int) -> Buffer:
        """Send one frame and wait for one. Errors: UnreachableError, after closing the connection."""
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                write_parts(self._writer.transport, frame(request))
                return await self._receive()
        except TimeoutError:
            doubt = ": is it a node of a quorum?" if key is ApiKey.API_VERSIONS else ""
            problem = f"it accepts connections, but did not answer {_name(key)} within {timeout_ms} ms{doubt}"
        except ProtocolError as error:
            problem = f"it is not a node of a quorum: it answers {_name(key)} with {error}"
        except OSError as error:
            problem = f"it closed the connection when it was asked for {_name(key)} ({in_words(error)})"
        # Cancelled, say: the answer may still arrive, so nobody may use this connection again.
        except BaseException:
            await self.close()
            raise
        await self.close()
        raise UnreachableError(self.endpoint, problem)

    async def _receive(self) -> Buffer:
        """The next frame. Errors: OSError at the end of the stream, ProtocolError for bytes that are not a frame."""
        while True:
            data = await self._reader.read(_PIECE_SIZE_BYTES)
            if not data:
                raise ConnectionResetError(errno.ECONNRESET, "end of the stream")
            frames = self._frames.feed(data)
            # One request at a time, so a second frame answers nothing.
            if len(frames) > 1:
                raise ProtocolError("more than one answer to one request")
            if frames:
                return frames[0]

    async def _unusable(self, key: ApiKey, error: ProtocolError) -> UnreachableError:
        """Close the connection because of what the other end sent."""
        await self.close()
        return UnreachableError(self.endpoint, f"{_name(key)}: {error}")

    def _take_wire_id(self) -> int:
        wire_id, self._next_wire_id = self._next_wire_id, (self._next_wire_id + 1) % 2**31
        return wire_id


async def connect(endpoint: Endpoint, caller: Caller, *, timeout_ms: int) -> Connection:
    """Connect within this time, then negotiate within the same time again. Errors: UnreachableError."""
    connection = await _dial(endpoint, caller.names, timeout_ms)
    await connection.negotiate(caller, timeout_ms)
    return connection


async def _dial(endpoint: Endpoint, names: Names, timeout_ms: int) -> Connection:
    """Try the addresses of a host in turn, each with its share of the time. Errors: UnreachableError."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + timeout_ms / 1_000
    try:
        async with asyncio.timeout_at(end_s):
            addresses = await names.addresses(endpoint)
    except TimeoutError:
        raise UnreachableError(endpoint, f"its name was not resolved within {timeout_ms} ms") from None
    except OSError as error:
        raise UnreachableError(endpoint, f"its name cannot be resolved ({in_words(error)})") from error
    problem = "it has no address"
    for at, address in enumerate(addresses):
        share_s = max(0.0, end_s - loop.time()) / (len(addresses) - at)
        try:
            async with asyncio.timeout(share_s):
                reader, writer = await asyncio.open_connection(address, endpoint.port)
        except TimeoutError:
            problem = f"nothing accepts a connection there within {timeout_ms} ms"
        except OSError as error:
            problem = f"cannot connect ({in_words(error)})"
        except (ValueError, OverflowError) as error:  # asyncio raises these for an invalid address
            problem = f"cannot connect ({error})"
        else:
            return Connection(endpoint, reader, writer)
    raise UnreachableError(endpoint, problem)


def in_words(error: OSError) -> str:
    """The message of an operating system error, without the words that asyncio adds."""
    known = error.errno if error.errno in errno.errorcode else None
    return os.strerror(known) if known is not None else error.strerror or str(error)


def _name(key: ApiKey) -> str:
    """The name of an API as Kafka writes it: DescribeQuorum."""
    return "".join(word.capitalize() for word in key.name.split("_"))


def _check_id(answered_id: int, asked_id: int) -> None:
    """Check that the answer belongs to our request. Errors: ProtocolError when it does not."""
    if answered_id != asked_id:
        raise ProtocolError(f"it answers request {answered_id}, expected {asked_id}")

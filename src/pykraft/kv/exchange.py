"""One HTTP request and its answer, on ASGI: the body is read, and the answer written, within bounds of size and time.

Invariant: a client that sends or reads nothing holds a request for `BODY_TIMEOUT_S` or `WRITE_TIMEOUT_S` at most. One
that reads too slowly is disconnected; its answer then ends without the last chunk, which every HTTP client notices.

Source: the ASGI specification 3.0 (HTTP); RFC 9112 §7.1 (chunks); ours (ADR 085).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from pykraft.kv.json_answers import ApiFailure, RequestRefusedError

AsgiScope: TypeAlias = MutableMapping[str, Any]
AsgiReceive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
AsgiSend: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

BODY_SIZE_BYTES_MAX: Final = 1 << 18
"""A command has 60,000 bytes, each of which may take six in JSON."""
BODY_TIMEOUT_S: Final = 10.0
WRITE_TIMEOUT_S: Final = 15.0
"""How long a client may read nothing while an answer is written to it."""
PIECE_SIZE_BYTES: Final = 1 << 16
ABORT: Final = "pykraft.abort"
"""The key in a scope of a function that ends the connection at once; without it the server ends it in its own time."""
NOTHING_MORE: Final = b"connection: close"
"""The rest of the body is not wanted."""


class ClientGoneError(Exception):
    """The client has disconnected, or was disconnected: nobody waits for the answer."""


class Exchange:
    """A request, and the way back to its client."""

    def __init__(self, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self._abort: Callable[[], None] | None = scope.get(ABORT)
        self._receive = receive
        self._send = send
        self._is_begun = False

    async def body(self) -> bytes:
        """The whole body. Errors: RequestRefusedError for one that is too large or too slow; ClientGoneError."""
        length = self.headers.get(b"content-length", b"")
        too_large = RequestRefusedError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            "too_large",
            f"a body has at most {BODY_SIZE_BYTES_MAX} bytes",
            NOTHING_MORE,
        )
        if length.isdigit() and (len(length) > 10 or int(length) > BODY_SIZE_BYTES_MAX):
            raise too_large
        received = bytearray()
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                while True:
                    message = await self._receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGoneError
                    received += message.get("body", b"")
                    if len(received) > BODY_SIZE_BYTES_MAX:
                        raise too_large
                    if not message.get("more_body"):
                        return bytes(received)
        except TimeoutError:
            text = f"the body did not arrive within {BODY_TIMEOUT_S:g} s"
            raise RequestRefusedError(HTTPStatus.REQUEST_TIMEOUT, "too_slow", text, NOTHING_MORE) from None

    async def gone(self) -> None:
        """Wait until the client disconnects; after `body`."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def answer(self, content: dict[str, Any], status: HTTPStatus = HTTPStatus.OK, *headers: bytes) -> None:
        """The whole answer. Errors: ClientGoneError."""
        data = _line(content)
        pairs = [tuple(header.split(b": ", 1)) for header in (b"content-length: %d" % len(data), *headers)]
        await self._begin(status, b"application/json", pairs)
        # In pieces, so that a server that counts what waits to be read can hold back.
        for at in range(0, len(data), PIECE_SIZE_BYTES):
            await self._write(data[at : at + PIECE_SIZE_BYTES], more=at + PIECE_SIZE_BYTES < len(data))

    async def begin_lines(self) -> None:
        """Begin an answer of JSON lines. Errors: ClientGoneError."""
        await self._begin(HTTPStatus.OK, b"application/x-ndjson", [])

    async def line(self, content: dict[str, Any]) -> None:
        """One line of the answer. Errors: ClientGoneError, also for a client that reads too slowly."""
        await self._write(_line(content), more=True)

    async def fail(self, failure: ApiFailure) -> None:
        """Answer with an error, or make it the last line. Errors: ClientGoneError."""
        if self._is_begun:
            await self.line(failure.as_json())
            await self._write(b"", more=False)
            return
        await self.answer(failure.as_json(), failure.status, *failure.headers)

    async def _begin(self, status: HTTPStatus, kind: bytes, headers: list[Any]) -> None:
        self._is_begun = True
        own = [(b"content-type", kind), (b"cache-control", b"no-store"), *headers]
        await self._deliver({"type": "http.response.start", "status": int(status), "headers": own})

    async def _write(self, data: bytes, *, more: bool) -> None:
        await self._deliver({"type": "http.response.body", "body": data, "more_body": more})

    async def _deliver(self, message: MutableMapping[str, Any]) -> None:
        try:
            async with asyncio.timeout(WRITE_TIMEOUT_S):
                await self._send(message)
        except TimeoutError:
            if self._abort is not None:
                self._abort()
            raise ClientGoneError from None
        except OSError:
            raise ClientGoneError from None


def _line(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"

"""The HTTP server around the API: heads, connections and idle clients are bounded, and it stops at once."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pykraft.kv.api import Exchange
from pykraft.security.contexts import Side, TlsContext
from pykraft.server.binding import listening_sockets, port_of
from pykraft.types import Endpoint
from tests.security.credentials import context, properties
from tests.server.station import reset, send_in_pieces, turns

HEAD = b"GET /x HTTP/1.1\r\nhost: a\r\n"


async def echo(exchange: Exchange) -> None:
    await exchange.answer({"path": exchange.path})


@asynccontextmanager
async def listening(
    act: Callable[[Exchange], Awaitable[None]], tls: TlsContext | None = None
) -> AsyncIterator[tuple[int, Any]]:
    """A server whose requests ``act`` serves; its port."""
    from pykraft.kv.http_server import HttpServer

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await act(Exchange(scope, receive, send))

    sockets = listening_sockets(Endpoint("127.0.0.1", 0))
    port = port_of(sockets)
    server = HttpServer(app, sockets, tls)
    serving = asyncio.ensure_future(server.run())
    try:
        yield port, server
    finally:
        server.stop()
        await serving


async def answer_to(port: int, data: bytes) -> tuple[int, bytes]:
    """Status and rest of the answer, until the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    answer = await reader.read()
    writer.close()
    return int(answer.split(b" ", 2)[1]), answer


async def is_ended(reader: asyncio.StreamReader) -> bool:
    with suppress(ConnectionResetError):
        return await reader.read() == b""
    return True


async def test_requests_are_served_and_what_is_no_request_is_refused() -> None:
    async with listening(echo) as (port, _):
        status, answer = await answer_to(port, HEAD + b"connection: close\r\n\r\n")
        assert status == 200
        assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {"path": "/x"}
        assert b"uvicorn" not in answer
        assert (await answer_to(port, b"\x16\x03\x01 hello\r\n\r\n"))[0] == 400
        assert (await answer_to(port, HEAD + b"a: " + b"b" * (1 << 15)))[0] == 400


async def test_idle_connections_and_half_heads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    from pykraft.kv import http_server

    monkeypatch.setattr(http_server, "WATCH_INTERVAL_S", 0.01)
    monkeypatch.setattr(http_server, "IDLE_S", 0.05)

    async with listening(echo) as (port, _):
        for sent in (b"", HEAD, HEAD + b"\r\n" + HEAD):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            if sent.endswith(b"\r\n" + HEAD):
                await reader.readuntil(b"}\n")
            assert await is_ended(reader), sent
            writer.close()


async def test_connections_beyond_the_most_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    from pykraft.kv import http_server

    monkeypatch.setattr(http_server, "CONNECTIONS_MAX", 2)

    async with listening(echo) as (port, _):
        streams = []
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEAD + b"\r\n")
            await reader.readuntil(b"}\n")
            streams.append((reader, writer))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await is_ended(reader)
        writer.close()
        for reader, writer in streams:
            writer.write(HEAD + b"\r\n")
            await reader.readuntil(b"}\n")
            writer.close()


async def test_a_client_that_reads_nothing_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    from pykraft.kv import api as exchange_module

    monkeypatch.setattr(exchange_module, "WRITE_TIMEOUT_S", 0.05)
    sent: list[int] = []

    async def flood(exchange: Exchange) -> None:
        await exchange.begin_lines()
        while True:
            await exchange.line({"a": "x" * 50_000})
            sent.append(50_000)

    ended = asyncio.Event()

    async def act(exchange: Exchange) -> None:
        try:
            await flood(exchange)
        except exchange_module.ClientGoneError:
            ended.set()

    async with listening(act) as (port, _):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(HEAD + b"\r\n")
            await ended.wait()
            # What was written and not read is not much more than the buffers of the system.
            assert sum(sent) < 50_000_000
            last = b""
            with suppress(ConnectionResetError):
                while data := client.recv(1 << 20):
                    last = data
            assert not last.endswith(b"0\r\n\r\n"), "the answer has no proper end"


async def test_the_server_stops_although_requests_are_under_way() -> None:
    begun = asyncio.Event()

    async def wait(exchange: Exchange) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with listening(wait) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(HEAD + b"\r\n")
        await begun.wait()
    with suppress(ConnectionResetError):
        assert b"200 OK" not in await reader.read()
    writer.close()


PIECES = (
    HEAD + b"\r\n",
    HEAD + b"connection: close\r\n\r\n",
    b"POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\n",
    b"POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n",
    b"POST /x HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\n",
    b"GET /x HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
    b"HEAD /x HTTP/1.0\r\n\r\n",
    b"3\r\nabc\r\n",
    b"0\r\n\r\n",
    b"zz\r\n",
    b"abc",
    b"\x16\x03\x01\r\n\r\n",
)
"""What a client may send next: right and wrong, in any order."""


async def answer_late(exchange: Exchange) -> None:
    await turns(asyncio.get_running_loop(), 5)
    await exchange.answer({"body": len(await exchange.body())})


async def answer_much(exchange: Exchange) -> None:
    await exchange.answer({"much": "x" * 400_000})


@pytest.mark.parametrize("act", [echo, answer_late, answer_much])
@pytest.mark.parametrize("has_tls", [False, True])
async def test_no_order_of_requests_and_garbage_is_an_error_of_the_server(
    tmp_path: Path, act: Callable[[Exchange], Awaitable[None]], has_tls: bool
) -> None:
    """What the loop complains of fails the test, as every other."""
    values = properties(tmp_path, ssl__client__auth="none")
    tls = context(values, Side.SERVER) if has_tls else None
    trust = context({"ssl.truststore.location": values["ssl.truststore.location"]}, Side.CLIENT).current
    options: Any = {"ssl": trust, "server_hostname": "localhost"} if has_tls else {}
    random = Random(f"{act.__name__} {has_tls}")
    async with listening(act, tls) as (port, _):

        async def visit(sent: list[bytes]) -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 10, **options)
            with suppress(OSError):
                await send_in_pieces(reader, writer, sent, random)
            await reset(writer)

        for _ in range(4):  # no more visits than one address may make at once
            await asyncio.gather(*(visit(random.choices(PIECES, k=random.randint(2, 6))) for _ in range(20)))

"""Answers are received in place, and nobody waits for a connection that has ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from pykraft.client.remote.answer_stream import AnswerStream
from pykraft.errors import ProtocolError
from pykraft.local.ports import HOST, free_ports
from pykraft.rpc.connection import DialedConnection
from pykraft.types import Buffer
from tests.client.scripted import run, until

LARGE = bytes(range(256)) * 2_000


class Node:
    """The other end of one connection, which sends what a test tells it to."""

    def __init__(self) -> None:
        self.writers: list[asyncio.StreamWriter] = []

    def accept(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Keep the connection."""
        self.writers.append(writer)

    async def send(self, data: bytes) -> None:
        """Write these bytes."""
        self.writers[0].write(data)
        await self.writers[0].drain()


class Wire(DialedConnection):
    """Counts the bytes that were received in the room of a frame."""

    in_place = 0

    def filled(self, size_bytes: int) -> Buffer | None:
        self.in_place += size_bytes
        return super().filled(size_bytes)


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Node, AnswerStream, Wire]]:
    """Both ends of a connection."""
    node, wire = Node(), Wire("test")
    wire._frames.size_bytes_max = 2 * len(LARGE)  # as after the negotiation
    loop = asyncio.get_running_loop()
    [port] = free_ports(1)
    server = await asyncio.start_server(node.accept, HOST, port)
    _, stream = await loop.create_connection(partial(AnswerStream, wire, loop), HOST, port)
    try:
        await until(lambda: bool(node.writers))
        yield node, stream, wire
    finally:
        await stream.close()
        server.close()
        for writer in node.writers:
            writer.transport.abort()
        await server.wait_closed()


def framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def test_the_rest_of_a_large_answer_is_received_in_its_frame() -> None:
    async def main() -> None:
        async with connected() as (node, stream, wire):
            for _ in range(3):
                waiting = asyncio.ensure_future(stream.answer())
                data = framed(LARGE)
                await node.send(data[:3])
                await until(lambda: wire._frames.held_size_bytes == 3)
                await node.send(data[3:1_000])
                await until(lambda: wire._frames.need_size_bytes > 0)
                await node.send(data[1_000:])
                assert bytes(await waiting) == LARGE
            assert wire.in_place >= len(LARGE)

    run(main)


def test_bytes_that_nobody_waits_for_end_the_connection() -> None:
    async def main() -> None:
        async with connected() as (node, stream, _):
            assert stream.is_open
            await node.send(framed(b"unasked"))
            await until(lambda: not stream.is_open)
            with pytest.raises(OSError, match="end of the stream"):
                await stream.answer()

    run(main)


def test_a_second_answer_after_a_given_up_wait_ends_the_connection() -> None:
    async def main() -> None:
        async with connected() as (node, stream, _):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await stream.answer()
            await node.send(framed(b"too late"))
            await until(lambda: not stream.is_open)

    run(main)


def test_the_end_of_the_connection_ends_the_wait() -> None:
    async def main() -> None:
        async with connected() as (node, stream, _):
            waiting = asyncio.ensure_future(stream.answer())
            await node.send(framed(LARGE)[:500])
            node.writers[0].transport.abort()
            with pytest.raises(OSError, match=r"end of the stream|reset"):
                await waiting
            assert not stream.is_open

    run(main)


def test_bytes_that_are_no_frame_end_the_wait() -> None:
    async def main() -> None:
        async with connected() as (node, stream, _):
            waiting = asyncio.ensure_future(stream.answer())
            await node.send((2 * len(LARGE) + 1).to_bytes(4, "big"))
            with pytest.raises(ProtocolError, match="allowed are 1 to"):
                await waiting

    run(main)

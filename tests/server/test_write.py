"""Writing on both loops: a peer that does not read pauses the writer, and a broken connection buffers nothing."""

from __future__ import annotations

import asyncio
import socket
import struct

from pykraft.server.write import write_parts

PIECE = bytes(64 * 1024)
TIMEOUT_S = 10.0


class Stream(asyncio.Protocol):
    """Notes what its transport tells."""

    def __init__(self) -> None:
        self.pauses = 0
        self.lost = asyncio.Event()

    def pause_writing(self) -> None:
        self.pauses += 1

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.lost.set()


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of one connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        near = socket.create_connection(listening.getsockname())
        far, _ = listening.accept()
    near.setblocking(False)
    return near, far


def test_parts_arrive_in_order(runner: asyncio.Runner) -> None:
    async def main() -> None:
        near, far = tcp_pair()
        transport, stream = await asyncio.get_running_loop().create_connection(Stream, sock=near)
        write_parts(transport, [b"one", memoryview(b"two"), bytearray(b"three")])
        assert await asyncio.to_thread(far.recv, 100) == b"onetwothree"
        far.close()
        transport.close()
        await asyncio.wait_for(stream.lost.wait(), TIMEOUT_S)

    runner.run(main())


def test_a_peer_that_does_not_read_pauses_the_writer(runner: asyncio.Runner) -> None:
    async def main() -> None:
        near, far = tcp_pair()
        transport, stream = await asyncio.get_running_loop().create_connection(Stream, sock=near)
        for _ in range(1_000):
            if stream.pauses:
                break
            write_parts(transport, [PIECE, PIECE])
        assert stream.pauses == 1
        transport.abort()
        await asyncio.wait_for(stream.lost.wait(), TIMEOUT_S)
        far.close()

    runner.run(main())


def test_a_broken_connection_keeps_nothing_of_what_is_written(runner: asyncio.Runner) -> None:
    """1. The peer resets the connection; 2. frames are written before the loop has told that it is lost."""

    async def main() -> None:
        near, far = tcp_pair()
        transport, stream = await asyncio.get_running_loop().create_connection(Stream, sock=near)
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        far.close()
        for _ in range(10):
            write_parts(transport, [PIECE, PIECE])
        await asyncio.wait_for(stream.lost.wait(), TIMEOUT_S)
        assert transport.get_write_buffer_size() == 0

    runner.run(main())

"""TCP proxies in front of nodes. Their wires can be slow, cut in one direction, or reset within a frame.

Nodes advertise the port of their proxy, so all traffic between nodes passes through it. One thread runs an event loop
with all sockets. Invariant: a wire carries bytes in order and drops none while its connection lives; bytes that a cut
holds back arrive when the cut is over, as with TCP. Wires are directed: a connection that node 1 dialed to node 2 sends
its requests on the wire 1 → 2 and its answers on 2 → 1.

The proxy learns the dialing node from the client id in the first request (``raft-client-<id>``, in Kafka as in
pykraft). Clients without such an id, such as tools and readers, are outsiders: faults do not affect their wires.

Kernel buffers are part of the wire: a sender may write a few hundred KiB before it notices that the wire is cut.

Source: Kafka protocol guide §Protocol (request header); KafkaRaftManager (the client id).
"""

import asyncio
import re
import socket
import struct
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from random import Random
from threading import Thread
from typing import Final

from pykraft.local.voters import HOST

OUTSIDER: Final = -1
CHUNK_SIZE_BYTES: Final = 16_384
CHUNKS_ON_THE_WAY_MAX: Final = 32
KERNEL_SIZE_BYTES: Final = 65_536
"""Receive buffer of the proxy's sockets."""
CUT_POLL_S: Final = 0.01
ACCEPT_TURNS: Final = 3
"""Turns of the event loop between the accept of a connection and our callback for it."""
HEAD: Final = struct.Struct(">ihhih")
CLIENT_ID: Final = re.compile(rb"raft-client-(\d+)")
CLIENT_ID_SIZE_BYTES_MAX: Final = 256
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
_BROKEN: Final = (OSError, asyncio.IncompleteReadError)


@dataclass(slots=True)
class Wire:
    """The state of one direction between two nodes; any thread may change it at any time.

    Units: bytes per second, seconds. ``reset_share`` is the probability that a chunk of at most CHUNK_SIZE_BYTES is cut
    off in the middle and its connection reset.
    """

    bandwidth: float = float("inf")
    latency_s: float = 0.0
    is_cut: bool = False
    reset_share: float = 0.0
    free_at_s: float = 0.0
    """When the wire has sent everything that was put on it."""

    def heal(self) -> None:
        """Make it as fast as the machine allows, from the next chunk on."""
        self.bandwidth, self.latency_s, self.is_cut, self.reset_share = float("inf"), 0.0, False, 0.0
        self.free_at_s = 0.0  # bytes on a slow wire whose connection died delay nothing any more


class ProxyNetwork:
    """Proxies for some nodes; `close` ends them."""

    def __init__(self, fronts: Mapping[int, tuple[int, int]], rng: Random) -> None:
        """``fronts`` by node id: the port of the proxy and that of the node; ``rng`` places the resets."""
        self._wires: defaultdict[tuple[int, int], Wire] = defaultdict(Wire)
        self._fronts = fronts
        self._rng = rng
        self._servers: list[asyncio.Server] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._run, name="chaos-network", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()

    def wire(self, source: int, target: int) -> Wire:
        return self._wires[source, target]

    def wires_of(self, node_id: int) -> list[Wire]:
        others = [other for other in self._fronts if other != node_id]
        return [self.wire(*pair) for other in others for pair in ((node_id, other), (other, node_id))]

    def heal(self) -> None:
        for wire in list(self._wires.values()):
            wire.heal()

    def close(self) -> None:
        """Reset all connections and stop the thread."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    async def _listen(self) -> None:
        for node_id, (port, _) in self._fronts.items():
            listening = socket.create_server((HOST, port))
            _bound_kernel(listening)
            self._servers.append(await asyncio.start_server(partial(self._accept, node_id), sock=listening))

    def _accept(self, node_id: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Not a coroutine, so that an accepted connection is registered at once, even while the network is closing."""
        self._writers.add(writer)
        task = self._loop.create_task(self._carry(node_id, reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry(self, node_id: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            _, port = self._fronts[node_id]
            node_reader, node_writer = await self._dial(port)
            self._writers.add(node_writer)
            try:
                begin, dialer = await _first_request(reader)
                there, back = Wire(), Wire()
                if dialer != OUTSIDER:
                    there, back = self.wire(dialer, node_id), self.wire(node_id, dialer)
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._flow(reader, node_writer, there, begin))
                    group.create_task(self._flow(node_reader, writer, back, b""))
            finally:
                self._reset(node_writer)
        except* _BROKEN:
            pass  # the node is down, or one side broke the connection: `_reset` shows it to both
        finally:
            self._reset(writer)

    async def _dial(self, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        dialed = socket.socket()
        try:
            dialed.settimeout(0)
            _bound_kernel(dialed)
            await self._loop.sock_connect(dialed, (HOST, port))
            return await asyncio.open_connection(sock=dialed)
        except BaseException:
            dialed.close()
            raise

    async def _flow(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wire: Wire, begin: bytes) -> None:
        """Copy one direction to its end. Errors: OSError, ConnectionResetError after a reset."""
        on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(CHUNKS_ON_THE_WAY_MAX)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._deliver(on_the_way, writer, wire))
            data = begin or await reader.read(CHUNK_SIZE_BYTES)
            while data:
                now_s = self._loop.time()
                wire.free_at_s = max(now_s, wire.free_at_s) + len(data) / wire.bandwidth
                await on_the_way.put((wire.free_at_s + wire.latency_s, data))
                data = await reader.read(CHUNK_SIZE_BYTES)
            await on_the_way.put((0.0, b""))

    async def _deliver(
        self, on_the_way: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter, wire: Wire
    ) -> None:
        while True:
            due_s, data = await on_the_way.get()
            await _arrival(wire, due_s)
            if not data:
                raise ConnectionResetError("one side has closed the connection")
            if wire.reset_share > 0 and self._rng.random() < wire.reset_share:
                writer.write(data[: self._rng.randrange(len(data))])
                raise ConnectionResetError("reset within a frame")
            writer.write(data)
            await writer.drain()

    def _reset(self, writer: asyncio.StreamWriter) -> None:
        """Send RST instead of FIN: the other side sees a broken connection, not a closed one."""
        self._writers.discard(writer)
        with suppress(OSError):
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        writer.transport.abort()

    async def _end(self) -> None:
        for _ in range(ACCEPT_TURNS):  # asyncio loses sockets that it is accepting while the servers close
            await asyncio.sleep(0)
        for server in self._servers:
            server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in list(self._writers):
            self._reset(writer)
        await asyncio.sleep(0)  # the loop closes the sockets of aborted transports in its next turn


def _bound_kernel(own: socket.socket) -> None:
    """Let a sender see how slow its wire is, as on a real link: what the kernel holds for the proxy looks delivered.

    Linux lets a receive buffer grow to many MiB otherwise, so that a leader's whole answer is gone at once.
    """
    own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, KERNEL_SIZE_BYTES)


async def _arrival(wire: Wire, due_s: float) -> None:
    """Wait until this time of the loop, and then until the wire is not cut."""
    loop = asyncio.get_running_loop()
    while True:
        left_s = due_s - loop.time()
        if left_s <= 0 and not wire.is_cut:
            return
        await asyncio.sleep(left_s if left_s > 0 else CUT_POLL_S)


async def _first_request(reader: asyncio.StreamReader) -> tuple[bytes, int]:
    """The bytes up to the client id, and the node that it names; OUTSIDER for any other client."""
    head = await reader.readexactly(HEAD.size)
    size_bytes = HEAD.unpack(head)[-1]
    if not 0 < size_bytes <= CLIENT_ID_SIZE_BYTES_MAX:
        return head, OUTSIDER
    name = await reader.readexactly(size_bytes)
    found = CLIENT_ID.fullmatch(name)
    return head + name, OUTSIDER if found is None else int(found[1])

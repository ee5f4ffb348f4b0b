"""A program with a node in it, to be killed: it proposes while it leads, and tells on a pipe what it was told.

    python -m tests.processes.embedded NODE_ID VOTERS DIRECTORY DESCRIPTOR FROM_OFFSET

VOTERS is ``id=host:port,…``. Lines, each one JSON array: ``["started"]``; ``["ack", base_offset, count, digest]`` for
each proposal that was committed; ``["seen", listener, base_offset, last_offset, digest]`` for each batch that a
listener was given. A line leaves in one write from within the call that it tells of, so that what a listener handled
is exactly what it told. The listener ``late`` begins at FROM_OFFSET, ``early`` at the log start; the node runs in a
thread of its own where its id is even. SIGUSR1 ends the load, SIGTERM the program.
"""

import asyncio
import json
import os
import signal
import sys
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pykraft.client import LeaderAndEpoch, Node, Reader, configure, until_signal
from pykraft.config import RaftConfig
from pykraft.errors import BufferFullError, NotLeaderError, NotRunningError, OutcomeUnknownError

QUICK = RaftConfig(
    election_timeout_ms=250,
    fetch_timeout_ms=500,
    election_backoff_max_ms=100,
    append_linger_ms=5,
    fetch_wait_ms_max=100,
)
PROPOSERS = 3
RECORDS = 4
PAUSE_S = 0.015


def digest(records: Iterable[bytes]) -> int:
    """Of records in their order; they all have the same size."""
    return zlib.crc32(b"".join(records))


class Teller:
    """Tells what it is given; its calls are plain."""

    def __init__(self, name: str, descriptor: int) -> None:
        self.name = name
        self.descriptor = descriptor

    def handle_commit(self, reader: Reader[bytes]) -> None:
        for batch in reader:
            write_line(self.descriptor, "seen", self.name, batch.base_offset, batch.last_offset, digest(batch.records))

    def handle_leader_change(self, leader_and_epoch: LeaderAndEpoch) -> None:
        """Not of interest: who leads shows in who can propose."""


class SlowTeller(Teller):
    """Its calls are not plain: others run in between."""

    async def handle_commit(self, reader: Reader[bytes]) -> None:  # type: ignore[override]
        await asyncio.wait_for(asyncio.to_thread(int), 10)
        super().handle_commit(reader)


def write_line(descriptor: int, *words: object) -> None:
    os.write(descriptor, json.dumps(words, separators=(",", ":")).encode() + b"\n")


async def propose(node: Node[bytes], descriptor: int, enough: asyncio.Event) -> None:
    """Propose while this node leads, until it is enough."""
    while not enough.is_set():
        records = [os.urandom(40) for _ in range(RECORDS)]
        with suppress(NotLeaderError, BufferFullError, OutcomeUnknownError, NotRunningError):
            committed = await node.propose(records)
            write_line(descriptor, "ack", committed.base_offset, committed.count, digest(records))
        with suppress(TimeoutError):
            await asyncio.wait_for(enough.wait(), PAUSE_S)


async def main(node_id: int, voters: dict[int, str], directory: Path, descriptor: int, from_offset: int) -> None:
    enough = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, enough.set)
    node = Node(configure(directory, node_id=node_id, voters=voters, raft=QUICK), own_thread=node_id % 2 == 0)
    node.register(Teller("early", descriptor))
    node.register(SlowTeller("late", descriptor), from_offset=from_offset)
    async with until_signal(), node:
        write_line(descriptor, "started")
        async with asyncio.TaskGroup() as group:
            for _ in range(PROPOSERS):
                group.create_task(propose(node, descriptor, enough))
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    own_id, addresses, folder, pipe, begin = sys.argv[1:]
    by_id = {int(part.partition("=")[0]): part.partition("=")[2] for part in addresses.split(",")}
    asyncio.run(main(int(own_id), by_id, Path(folder), int(pipe), int(begin)))

"""How many records an embedded node commits and delivers to its listener, by the number of records in one append.

    python benchmarks/client.py [--seconds S] [--directory DIR] [--own-thread]

Quorums of one node and of three, with all nodes and the client in this process on one event loop (or each node in a
thread of its own: --own-thread). Records have 100 bytes and come in lists of 1, 100 and 1000, from 1000, 64 and 16
proposers, each with one append under way. Prints the committed records per second that the leader's listener got, and
the median time of an append. The nodes share the interpreter and the disk. The speed of cores and disks varies by a
factor of two within minutes: compare only results of one call.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from pykraft.client import LeaderAndEpoch, Node, Reader, configure
from pykraft.config import RaftConfig
from pykraft.errors import BufferFullError
from pykraft.server.run import SWITCH_INTERVAL_S

RECORD = bytes(99) + b"x"
RAFT = RaftConfig(append_linger_ms=5)
PROPOSERS = {1: 1_000, 100: 64, 1_000: 16}
"""Number of proposers, by the size of an append."""


class Count:
    """A listener that decodes and counts the records."""

    def __init__(self) -> None:
        self.records = 0

    def handle_commit(self, reader: Reader[bytes]) -> None:
        """Decode every record."""
        self.records += sum(len(batch.records) for batch in reader)

    def handle_leader_change(self, leader_and_epoch: LeaderAndEpoch) -> None:
        """Ignored."""


async def propose(node: Node[bytes], size: int, end_s: float, latencies_ms: list[float]) -> None:
    """Append again and again until the time is over."""
    records = [RECORD] * size
    while (begin_s := time.perf_counter()) < end_s:
        try:
            await node.propose(records)
        except BufferFullError:
            await asyncio.sleep(0.001)
        else:
            latencies_ms.append((time.perf_counter() - begin_s) * 1_000)


async def measure(directory: Path, nodes_count: int, size: int, chosen: argparse.Namespace) -> None:
    """Measure one quorum with one size of appends."""
    ids = range(1, nodes_count + 1)
    folder = directory / f"{nodes_count}-{size}"
    nodes = {
        node_id: Node(configure(folder / f"n{node_id}", node_id=node_id, raft=RAFT), own_thread=chosen.own_thread)
        for node_id in ids
    }
    async with AsyncExitStack() as stack:
        for node in nodes.values():
            await node.bind()
        voters = {node_id: str(node.endpoint) for node_id, node in nodes.items()}
        for node in nodes.values():
            await node.initialize(voters)
            stack.push_async_callback(node.close)
        leading = await nodes[1].wait_for_leader()
        [leader] = [node for node in nodes.values() if leading.is_leader(node.node_id)]
        count = Count()
        leader.register(count)
        latencies_ms: list[float] = []
        begin_s = time.perf_counter()
        end_s = begin_s + chosen.seconds
        await asyncio.gather(*(propose(leader, size, end_s, latencies_ms) for _ in range(PROPOSERS[size])))
        rate = count.records / (time.perf_counter() - begin_s)
        median_ms = statistics.median(latencies_ms)
        print(f"{nodes_count} node(s), lists of {size:>5}: {rate:>9,.0f} records/s, an append {median_ms:>7.1f} ms")


async def main(chosen: argparse.Namespace) -> None:
    """Measure all sizes, on one node and on three."""
    with tempfile.TemporaryDirectory(dir=chosen.directory) as directory:
        for nodes_count in (1, 3):
            for size in PROPOSERS:
                await measure(Path(directory), nodes_count, size, chosen)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Committed records a second of an embedded node.")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--directory", type=Path, help="on the disk in question; a temporary folder by default")
    parser.add_argument("--own-thread", action="store_true", help="each node in a thread of its own")
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    asyncio.run(main(parser.parse_args()))

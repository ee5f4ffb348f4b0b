"""How many records an embedded node commits and delivers to its listener, by the number of records in one append.

    python benchmarks/client.py [--seconds S] [--directory DIR] [--own-thread] [--linger-ms MS,…]

Quorums of one node and of three, with all nodes and the client in this process on one event loop (or each node in a
thread of its own: --own-thread). Records have 100 bytes. They come one by one from a single proposer, from 64 and from
1000, and in lists of 100 and 1000 from 64 and 16; each proposer has one append under way. Prints the committed records
per second that the leader's listener got, the median and the 99th percentile of the time of an append, and the
processor time of a record. The nodes share the interpreter and the disk. The speed of cores and disks varies by a
factor of two within minutes: compare only results of one call. Linger times take turns.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from pykraft.client import LeaderAndEpoch, Node, Reader, configure
from pykraft.config import RaftConfig
from pykraft.errors import BufferFullError
from pykraft.server.run import SWITCH_INTERVAL_S

RECORD = bytes(99) + b"x"
CASES = ((1, 1), (1, 64), (1, 1_000), (100, 64), (1_000, 16))
"""Size of an append, and number of proposers."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One measurement."""

    nodes_count: int
    linger_ms: int
    size: int
    proposers: int


async def measure(folder: Path, case: Case, chosen: argparse.Namespace) -> None:
    """Measure one quorum."""
    raft = RaftConfig(append_linger_ms=case.linger_ms)
    nodes = {
        node_id: Node(configure(folder / f"n{node_id}", node_id=node_id, raft=raft), own_thread=chosen.own_thread)
        for node_id in range(1, case.nodes_count + 1)
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
        begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
        end_s = begin_s + chosen.seconds
        await asyncio.gather(*(propose(leader, case.size, end_s, latencies_ms) for _ in range(case.proposers)))
        rate = count.records / (time.perf_counter() - begin_s)
        cpu_us = (time.process_time() - begin_cpu_s) / count.records * 1e6
    latencies_ms.sort()
    print(
        f"{case.nodes_count} node(s), linger {case.linger_ms:>2} ms, {case.proposers:>5} lists of {case.size:>5}: "
        f"{rate:>9,.0f} records/s, p50 {statistics.median(latencies_ms):>6.1f} ms, "
        f"p99 {latencies_ms[len(latencies_ms) * 99 // 100]:>6.1f} ms, {cpu_us:>7.1f} µs of processor a record",
        flush=True,
    )


async def main(chosen: argparse.Namespace) -> None:
    """Measure all cases, on one node and on three."""
    for nodes_count in (1, 3):
        for size, proposers in CASES:
            for linger_ms in map(int, chosen.linger_ms.split(",")):
                case = Case(nodes_count=nodes_count, linger_ms=linger_ms, size=size, proposers=proposers)
                with tempfile.TemporaryDirectory(dir=chosen.directory) as folder:
                    await measure(Path(folder), case, chosen)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Committed records a second of an embedded node.")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--directory", type=Path, help="on the disk in question; a temporary folder by default")
    parser.add_argument("--own-thread", action="store_true", help="each node in a thread of its own")
    parser.add_argument("--linger-ms", default="0", help="append_linger_ms; several, with commas, take turns")
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    asyncio.run(main(parser.parse_args()))

"""Where the processor time of a single proposal goes, part by part.

    python lab/benchmarks/single.py [--records N] [--directory DIR]

Three nodes share this process and its event loop, over real sockets and files, and one caller proposes one record of
100 bytes at a time. First the processor time of a record is measured, then the same runs under Python's profiler. The
table divides the measured time, the least of 20 chunks, in the proportions of the profile; what C functions take
belongs to the part that calls them.

In three processes a record takes twice as much and more: each process finds its caches cold, and threads and processes
wake each other. Use a directory in memory to leave the disk out.
"""

import argparse
import asyncio
import cProfile
import gc
import pstats
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

from pykraft.client import Node, configure
from pykraft.config import RaftConfig
from pykraft.server.run import loop_factory

NODES: Final = 3
CHUNKS: Final = 20
RECORD: Final = bytes(99) + b"x"
FILES: Final = ("posix.pwrite", "posix.fdatasync", "posix.fsync", "posix.fstat")
PARTS: Final = {
    "pykraft/core/": "rules (core)",
    "pykraft/host/": "host",
    "pykraft/protocol/": "bytes of messages and batches (rpc, protocol)",
    "pykraft/rpc/": "bytes of messages and batches (rpc, protocol)",
    "pykraft/server/link": "connections (server), with the system calls",
    "pykraft/server/": "driver, timers, clock (server)",
    "pykraft/log/": "log, without its system calls",
    "pykraft/client/": "the application's side (client)",
}
"""The first that a file's path contains; anything else is the loop's."""


async def propose(leader: Node[bytes], count: int) -> None:
    """Append that many records, each when the one before is committed."""
    for _ in range(count):
        await leader.propose([RECORD])


async def measure(folder: Path, count: int) -> tuple[float, pstats.Stats]:
    """The processor time of a record in µs, least of some chunks, and the profile of as many records."""
    raft = RaftConfig(append_linger_ms=0)
    nodes = {node_id: Node(configure(folder / f"n{node_id}", node_id=node_id, raft=raft)) for node_id in (1, 2, 3)}
    for node in nodes.values():
        await node.bind()
    voters = {node_id: str(node.endpoint) for node_id, node in nodes.items()}
    for node in nodes.values():
        await node.initialize(voters)
    leading = await nodes[1].wait_for_leader()
    [leader] = [node for node in nodes.values() if leading.is_leader(node.node_id)]
    await propose(leader, count // CHUNKS + 50)
    gc.freeze()
    times_us = []
    for _ in range(CHUNKS):
        begin_s = time.process_time()
        await propose(leader, max(1, count // CHUNKS))
        times_us.append((time.process_time() - begin_s) / max(1, count // CHUNKS) * 1e6)
    profile = cProfile.Profile()
    with profile:
        await propose(leader, count)
    for node in nodes.values():
        await node.close()
    return min(times_us), pstats.Stats(profile)


def part_of(file: str) -> str:
    return next((part for piece, part in PARTS.items() if piece in file), "event loop, tasks and futures")


def by_part(stats: pstats.Stats) -> tuple[Counter[str], Counter[str]]:
    """Seconds and calls of each part; the time of a C function belongs to the part that called it."""
    seconds, calls = Counter[str](), Counter[str]()
    for (file, _, name), (_, count, own_s, _, callers) in stats.stats.items():  # type: ignore[attr-defined]
        if any(call in name for call in FILES):
            seconds["system calls of files"] += own_s
            calls["system calls of files"] += count
        elif file != "~":
            seconds[part_of(file)] += own_s
            calls[part_of(file)] += count
        else:
            for (caller, _, _), (_, caller_count, caller_s, _) in callers.items():
                seconds[part_of(caller)] += caller_s
                calls[part_of(caller)] += caller_count
    return seconds, calls


def main(chosen: argparse.Namespace) -> None:
    with (
        tempfile.TemporaryDirectory(dir=chosen.directory) as folder,
        asyncio.Runner(loop_factory=loop_factory("auto")) as runner,
    ):
        record_us, stats = runner.run(measure(Path(folder), chosen.records))
    seconds, calls = by_part(stats)
    record_calls = sum(calls.values()) / chosen.records
    print(f"{record_us:.0f} µs of processor time for one record in {NODES} nodes, {record_calls:.0f} calls:")
    for part, part_s in seconds.most_common():
        share = part_s / sum(seconds.values())
        print(f"{record_us * share:6.0f} µs  {share:4.0%}  {calls[part] / chosen.records:7.1f} calls  {part}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Where the processor time of a single proposal goes.")
    parser.add_argument("--records", type=int, default=2_000)
    parser.add_argument("--directory", type=Path, help="on the disk in question; a temporary folder by default")
    main(parser.parse_args())

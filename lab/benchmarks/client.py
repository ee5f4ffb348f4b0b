"""How many records an embedded node commits and delivers to its listener, by the number of records in one append.

    python lab/benchmarks/client.py [--seconds S] [--directory DIR] [--own-thread] [--linger-ms MS,…] [--json FILE]
        [--processes 1|3 [--callers N,…] [--size BYTES] [--rounds N]]

By default, quorums of one node and of three, with all nodes and the client in this process on one event loop (or each
node in a thread of its own: --own-thread). They come one by one from a single proposer, from 64 and from 1000, and in
lists of 100 and 1000 from 64 and 16; each proposer has one append under way.

With --processes 3, three nodes in processes of their own, as in production: the leader's process has the callers, and
each of them proposes one record at a time, again and again, 1, 64 and 2048 of them.

Records have 100 bytes. Prints the committed records per second that the leader's listener got, the median and the 99th
percentile of the time of an append, and the processor time of a record in all processes together; with --json it also
writes these figures to a file. The nodes share the disk, and in one process the interpreter. The speed of cores and
disks varies by a factor of two within minutes: compare only results of one call. Linger times take turns.
"""

import argparse
import asyncio
import json
import multiprocessing
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeAlias

from pykraft.client import LeaderAndEpoch, Node, Reader, configure
from pykraft.config import RaftConfig
from pykraft.errors import BufferFullError
from pykraft.server.run import SWITCH_INTERVAL_S, loop_factory

CASES = ((1, 1), (1, 64), (1, 1_000), (100, 64), (1_000, 16))
"""Size of an append, and number of proposers."""
LEADER_ID = 1
LeaderAndOthers: TypeAlias = "tuple[Node[bytes], list[OtherProcess]]"


class Count:
    """A listener that decodes and counts the records."""

    def __init__(self) -> None:
        self.records = 0

    def handle_commit(self, reader: Reader[bytes]) -> None:
        self.records += sum(len(batch.records) for batch in reader)

    def handle_leader_change(self, leader_and_epoch: LeaderAndEpoch) -> None:
        """Ignored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One measurement."""

    processes: int
    nodes_count: int
    linger_ms: int
    list_size: int
    proposers: int
    record_size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What was measured; the processor time is that of all processes."""

    case: Case
    own_thread: bool
    records_per_s: float
    p50_ms: float
    p99_ms: float
    cpu_us_per_record: float
    leader_cpu_us_per_record: float
    memory_mib: float
    """The highest resident size of any of the processes."""

    def __str__(self) -> str:
        case = self.case
        return (
            f"{case.nodes_count} node(s), {case.processes} process(es), linger {case.linger_ms:>2} ms, "
            f"{case.proposers:>5} lists of {case.list_size:>5}: {self.records_per_s:>9,.0f} records/s, "
            f"p50 {self.p50_ms:>7.2f} ms, p99 {self.p99_ms:>7.2f} ms, "
            f"{self.cpu_us_per_record:>7.1f} µs of CPU a record, {self.leader_cpu_us_per_record:.1f} of this process"
        )


def new_node(folder: Path, node_id: int, case: Case, *, own_thread: bool) -> Node[bytes]:
    raft = RaftConfig(append_linger_ms=case.linger_ms)
    return Node(configure(folder / f"n{node_id}", node_id=node_id, raft=raft), own_thread=own_thread)


class OtherProcess:
    """A node in a process of its own, which obeys: each request is one word, and has one answer."""

    def __init__(self, folder: Path, node_id: int, case: Case, *, own_thread: bool) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=obey, args=(theirs, folder, node_id, case, own_thread), daemon=True)
        self._process.start()
        theirs.close()

    async def ask(self, *request: object) -> object:
        """Send a request, and wait for the answer."""
        self._pipe.send(request)
        return await asyncio.to_thread(self._pipe.recv)

    async def end(self) -> None:
        """Close its node, and wait for the end of the process."""
        await self.ask("close")
        await asyncio.to_thread(self._process.join)


def obey(pipe: Connection, folder: Path, node_id: int, case: Case, own_thread: bool) -> None:  # noqa: FBT001 - see above
    """The main function of such a process."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)

    async def main() -> None:
        node = new_node(folder, node_id, case, own_thread=own_thread)
        await node.bind()
        while True:
            word, *arguments = await asyncio.to_thread(pipe.recv)
            match word:
                case "endpoint":
                    pipe.send(str(node.endpoint))
                case "initialize":
                    await node.initialize(*arguments)
                    pipe.send(None)
                case "hand over":
                    if node.leader_and_epoch.is_leader(node_id):
                        await node.transfer_leadership(LEADER_ID)
                    pipe.send(None)
                case "processor time":
                    pipe.send(time.process_time())
                case "memory":
                    pipe.send(memory_mib())
                case _:
                    await node.close()
                    pipe.send(None)
                    return

    with asyncio.Runner(loop_factory=loop_factory("auto")) as runner:
        runner.run(main())


@asynccontextmanager
async def one_process(folder: Path, case: Case, chosen: argparse.Namespace) -> AsyncIterator[LeaderAndOthers]:
    """All nodes in this process; yields the leader."""
    nodes = {
        node_id: new_node(folder, node_id, case, own_thread=chosen.own_thread)
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
        yield leader, []


@asynccontextmanager
async def many_processes(folder: Path, case: Case, chosen: argparse.Namespace) -> AsyncIterator[LeaderAndOthers]:
    """The leader's node in this process, each other in one of its own; yields the leader and the others."""
    node = new_node(folder, LEADER_ID, case, own_thread=chosen.own_thread)
    others = {
        node_id: OtherProcess(folder, node_id, case, own_thread=chosen.own_thread)
        for node_id in range(LEADER_ID + 1, LEADER_ID + case.nodes_count)
    }
    async with AsyncExitStack() as stack:
        for other in others.values():
            stack.push_async_callback(other.end)
        await node.bind()
        voters = {LEADER_ID: str(node.endpoint)}
        voters |= {node_id: str(await other.ask("endpoint")) for node_id, other in others.items()}
        await node.initialize(voters)
        stack.push_async_callback(node.close)
        for other in others.values():
            await other.ask("initialize", voters)
        while not (await node.wait_for_leader()).is_leader(LEADER_ID):
            for other in others.values():
                await other.ask("hand over")
        yield node, list(others.values())


async def propose(node: Node[bytes], case: Case, end_s: float, latencies_ms: list[float]) -> None:
    """Append again and again until the time is over."""
    records = [bytes(case.record_size_bytes - 1) + b"x"] * case.list_size
    while (begin_s := time.perf_counter()) < end_s:
        try:
            await node.propose(records)
        except BufferFullError:
            await asyncio.sleep(0.001)
        else:
            latencies_ms.append((time.perf_counter() - begin_s) * 1_000)


async def processor_times(others: list[OtherProcess]) -> tuple[float, float]:
    """The processor time of this process, and of all others together, in seconds."""
    asked = [await other.ask("processor time") for other in others]
    return time.process_time(), sum(each for each in asked if isinstance(each, float))


def memory_mib() -> float:
    """The highest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def measure(folder: Path, case: Case, chosen: argparse.Namespace) -> Result:
    begin = one_process if case.processes == 1 else many_processes
    async with begin(folder, case, chosen) as (leader, others):
        count = Count()
        leader.register(count)
        # What only the first appends cost, such as the first use of each table, is not measured.
        await asyncio.gather(*(propose(leader, case, time.perf_counter() + 0.2, []) for _ in range(case.proposers)))
        before, own_before_s, others_before_s = count.records, *await processor_times(others)
        latencies_ms: list[float] = []
        begin_s = time.perf_counter()
        end_s = begin_s + chosen.seconds
        await asyncio.gather(*(propose(leader, case, end_s, latencies_ms) for _ in range(case.proposers)))
        took_s = time.perf_counter() - begin_s
        own_s, others_s = await processor_times(others)
        records = count.records - before
        memory = [memory_mib(), *[float(str(await other.ask("memory"))) for other in others]]
    latencies_ms.sort()
    return Result(
        case=case,
        own_thread=chosen.own_thread,
        records_per_s=records / took_s,
        p50_ms=statistics.median(latencies_ms),
        p99_ms=latencies_ms[len(latencies_ms) * 99 // 100],
        cpu_us_per_record=(own_s - own_before_s + others_s - others_before_s) / records * 1e6,
        leader_cpu_us_per_record=(own_s - own_before_s) / records * 1e6,
        memory_mib=max(memory),
    )


def cases(chosen: argparse.Namespace) -> list[Case]:
    """All cases, linger times in turn."""
    if chosen.processes == 1:
        shapes = [(count, size, proposers) for count in (1, 3) for size, proposers in CASES]
    else:
        shapes = [(chosen.processes, 1, int(callers)) for callers in chosen.callers.split(",")]
    return [
        Case(
            processes=chosen.processes,
            nodes_count=nodes_count,
            linger_ms=linger_ms,
            list_size=size,
            proposers=proposers,
            record_size_bytes=chosen.size,
        )
        for nodes_count, size, proposers in shapes
        for linger_ms in map(int, chosen.linger_ms.split(","))
    ]


def main(chosen: argparse.Namespace) -> None:
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    results = []
    for case in cases(chosen) * chosen.rounds:
        with (
            tempfile.TemporaryDirectory(dir=chosen.directory) as folder,
            asyncio.Runner(loop_factory=loop_factory("auto" if case.processes > 1 else "asyncio")) as runner,
        ):
            result = runner.run(measure(Path(folder), case, chosen))
        print(result, flush=True)
        results.append(asdict(result))
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Committed records a second of an embedded node.")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--directory", type=Path, help="on the disk in question; a temporary folder by default")
    parser.add_argument("--own-thread", action="store_true", help="each node in a thread of its own")
    parser.add_argument("--linger-ms", default="0", help="append_linger_ms; several, with commas, take turns")
    parser.add_argument("--processes", type=int, default=1, choices=(1, 3), help="1: all nodes in this process")
    parser.add_argument("--callers", default="1,64,2048", help="with --processes 3: how many propose at a time")
    parser.add_argument("--size", type=int, default=100, help="bytes of a record")
    parser.add_argument("--rounds", type=int, default=1, help="how often to measure each case, in turn")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    main(parser.parse_args())

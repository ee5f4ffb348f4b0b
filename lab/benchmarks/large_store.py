"""How long a large key-value store stops executing commands: while it is snapshotted, restarted and joined.

    python -m lab.benchmarks.large_store [--mib N] [--value-bytes N] [--directory DIR] [--limit-ms MS]

Three nodes in processes of their own are filled; the leader is in this process, and one caller puts a small value again
and again. Then, one after the other: all nodes write a snapshot; a follower restarts and restores it; a node with an
empty directory joins through it, and votes. For each phase it prints how long it took, the longest time of a command,
by how much the leader's loop was late at most, and how much processor time it took until it looked at the clock again:
a slow disk delays commands, but not the loop, and other programs make it late, but not busy. With --limit-ms it exits
with 1 if a command of any phase took longer.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final

from lab.benchmarks.machine_quorum import CALLERS_ID, NODES, NodeSetting, OtherProcess, memory_mib, quorum
from pykraft.config import LogSettings
from pykraft.machine import Replicated
from pykraft.recipes import Put, Transaction
from pykraft.server.run import SWITCH_INTERVAL_S, loop_factory

MIB: Final = 1 << 20
COMMAND_SIZE_BYTES: Final = 56_000
FILLERS: Final = 8
TICK_S: Final = 0.002
STEADY_S: Final = 5.0
MOST_S: Final = 900.0
JOINER_ID: Final = CALLERS_ID + NODES


class Watch:
    """One caller that puts again and again, and a clock that is late when the loop is."""

    def __init__(self, node: Replicated[Any]) -> None:
        self._node = node
        self.worst_ms = 0.0
        self.late_ms = 0.0
        self.busy_ms = 0.0

    async def call(self) -> None:
        while True:
            begin_s = time.perf_counter()
            await self._node.execute(Transaction(then=(Put("watched", "x"),)))
            self.worst_ms = max(self.worst_ms, (time.perf_counter() - begin_s) * 1_000)

    async def tick(self) -> None:
        """See whether the loop is late."""
        while True:
            begin_s, used_s = time.perf_counter(), time.thread_time()
            await asyncio.sleep(TICK_S)
            self.busy_ms = max(self.busy_ms, (time.thread_time() - used_s) * 1_000)
            self.late_ms = max(self.late_ms, (time.perf_counter() - begin_s - TICK_S) * 1_000)


@asynccontextmanager
async def watched(node: Replicated[Any]) -> AsyncIterator[Watch]:
    """The caller and the clock, during the block."""
    watch = Watch(node)
    tasks = [asyncio.create_task(act()) for act in (watch.call, watch.tick)]
    try:
        yield watch
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def fill(node: Replicated[Any], size_bytes: int, value_size_bytes: int) -> None:
    numbers = iter(range(size_bytes // value_size_bytes))
    count = max(1, COMMAND_SIZE_BYTES // (value_size_bytes + 40))

    async def put() -> None:
        while found := [*islice(numbers, count)]:
            values = ((f"{number:09d}", f"{number:09d}".ljust(value_size_bytes, "v")) for number in found)
            await node.execute(Transaction(then=tuple(Put(key, value) for key, value in values)), timeout_ms=30_000)

    await asyncio.gather(*(put() for _ in range(FILLERS)))


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until the condition holds. Nothing announces a file or the state of another process, so this polls."""
    async with asyncio.timeout(MOST_S):
        while not await condition():  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.05)


async def measure(folder: Path, chosen: argparse.Namespace) -> float:
    """All phases; returns the longest time of a command."""
    size_bytes: int = chosen.mib * MIB
    log = LogSettings(snapshot_record_bytes_max=size_bytes, retention_size_bytes_max=size_bytes)
    setting = NodeSetting(folder=folder, machine="store", log=log)
    worst_ms = 0.0

    async def phase(name: str, act: Callable[[], Awaitable[None]]) -> None:
        nonlocal worst_ms
        async with watched(node) as watch:
            begin_s = time.perf_counter()
            await act()
            took_s = time.perf_counter() - begin_s
        worst_ms = max(worst_ms, watch.worst_ms)
        print(
            f"{name:>9}: {took_s:>6.1f} s, longest command {watch.worst_ms:>6.1f} ms, "
            f"loop late by {watch.late_ms:>6.1f} ms, busy for {watch.busy_ms:.1f} ms, leader {memory_mib():,.0f} MiB",
            flush=True,
        )

    def has_snapshots(count: int) -> bool:
        return len([*folder.glob("n*/**/*.checkpoint")]) >= count

    async def snapshots() -> None:
        # The same values again make one due.
        await fill(node, size_bytes // 8, chosen.value_bytes)
        await until(lambda: asyncio.to_thread(has_snapshots, NODES))

    async def restart() -> None:
        gone = others.pop()
        await gone.end()
        await follow(gone.node_id)

    async def join() -> None:
        await node.membership.allow_changes()
        await (await follow(JOINER_ID)).ask("join")

    async def follow(node_id: int) -> OtherProcess:
        """Start a node, and wait until it has the state that the leader has now."""
        other = OtherProcess(setting, node_id, voters)
        others.append(other)
        await other.ask("initialize")
        revision = node.machine.space.revision

        async def has_caught_up() -> bool:
            return bool(await other.ask("revision") >= revision)

        await until(has_caught_up)
        return other

    async with quorum(setting, leads=True) as (node, others):
        voters = {int(each): str(node.node.voter_node(each)) for each in node.node.latest_voter_set.ids}
        begin_s = time.perf_counter()
        await fill(node, size_bytes * 15 // 16, chosen.value_bytes)
        print(f"filled with {chosen.mib} MiB in {time.perf_counter() - begin_s:.1f} s", flush=True)
        await phase("snapshot", snapshots)
        await phase("steady", lambda: asyncio.sleep(STEADY_S))
        await phase("restart", restart)
        await phase("join", join)
    return worst_ms


def main(chosen: argparse.Namespace) -> int:
    """Measure; the exit status."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    folder = Path(tempfile.mkdtemp(dir=chosen.directory))
    try:
        with asyncio.Runner(loop_factory=loop_factory("auto")) as runner:
            worst_ms = runner.run(measure(folder, chosen))
    finally:
        shutil.rmtree(folder)
    return 1 if chosen.limit_ms is not None and worst_ms > chosen.limit_ms else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="How long a large key-value store stops executing commands.")
    parser.add_argument("--mib", type=int, default=1_024, help="size of the values")
    parser.add_argument("--value-bytes", type=int, default=4_096, help="size of one value, at most 32768")
    parser.add_argument("--directory", type=Path, help="on the disk in question; a temporary folder by default")
    parser.add_argument("--limit-ms", type=float, help="exit with 1 if a command took longer")
    sys.exit(main(parser.parse_args()))

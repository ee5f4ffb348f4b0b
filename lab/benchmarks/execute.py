"""How many commands a replicated state machine executes and how many reads it answers, on the leader or on a follower.

    python -m lab.benchmarks.execute [--on leader|follower] [--work execute|read] [--callers N,…] [--serde bytes|json]
        [--seconds S] [--size BYTES] [--directory DIR] [--own-thread] [--rounds N] [--json FILE]

Three nodes in processes of their own, as in production. The callers are in the process of the leader or of a follower;
each executes one command after the other (`Replicated.execute`), or makes one linearizable read after the other
(`Replicated.read`). A command puts a value of so many bytes under one of 10,000 keys; its result is a number. With
``bytes`` a command is bytes, with ``json`` a dataclass in the default serde, as in the README.

Prints operations per second, the median and the 99th percentile of the time of one, and the processor time of one in
all processes together and in the callers' process; with --json it also writes these figures to a file. Absolute figures
of a shared machine vary by a factor of two within minutes: compare only results of one call.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from lab.benchmarks.machine_quorum import KEY_SIZE_BYTES, NodeSetting, Put, memory_mib, quorum
from pykraft.machine import Replicated
from pykraft.server.run import SWITCH_INTERVAL_S, loop_factory

KEYS: Final = 10_000
WARM_UP_S: Final = 1.0


def command_of(number: int, case: Case) -> bytes | Put:
    """One of `KEYS` commands of the wanted size, without what the format adds."""
    key, size = f"{number % KEYS:0{KEY_SIZE_BYTES}d}", max(0, case.size_bytes - KEY_SIZE_BYTES)
    return key.encode() + bytes(size) if case.serde == "bytes" else Put(key, "v" * size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One measurement."""

    on: str
    work: str
    callers: int
    serde: str
    size_bytes: int
    own_thread: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What was measured."""

    case: Case
    rate: float
    p50_ms: float
    p99_ms: float
    worst_ms: float
    cpu_us: float
    callers_cpu_us: float
    memory_mib: float
    """The highest resident size of any of the processes."""

    def __str__(self) -> str:
        case = self.case
        return (
            f"{case.work} on the {case.on}, {case.serde}, {case.callers:>5} callers: {self.rate:>8,.0f}/s, "
            f"p50 {self.p50_ms:>7.2f} ms, p99 {self.p99_ms:>7.2f} ms, worst {self.worst_ms:>7.2f} ms, "
            f"{self.cpu_us:>6.1f} µs of CPU each, {self.callers_cpu_us:.1f} of the callers' process"
        )


async def again_and_again(act: Callable[[], Awaitable[object]], end_s: float, took_ms: list[float]) -> None:
    """One operation after the other until the time is over."""
    while (begin_s := time.perf_counter()) < end_s:
        await act()
        took_ms.append((time.perf_counter() - begin_s) * 1_000)


def work_of(node: Replicated[Any], case: Case, number: int) -> Callable[[], Awaitable[object]]:
    command = command_of(number, case)

    async def execute() -> None:
        await node.execute(command)

    async def read() -> None:
        async with node.read():
            pass

    return execute if case.work == "execute" else read


async def measure(folder: Path, case: Case, seconds: float) -> Result:
    setting = NodeSetting(folder=folder, machine=case.serde, own_thread=case.own_thread)
    async with quorum(setting, leads=case.on == "leader") as (node, others):
        await node.execute(command_of(0, case))
        works = [work_of(node, case, number) for number in range(case.callers)]

        async def load(end_s: float, took_ms: list[float]) -> None:
            await asyncio.gather(*(again_and_again(work, end_s, took_ms) for work in works))

        await load(time.perf_counter() + WARM_UP_S, [])
        used = [time.process_time(), *[(await other.ask("usage"))[0] for other in others]]
        took_ms: list[float] = []
        begin_s = time.perf_counter()
        await load(begin_s + seconds, took_ms)
        lasted_s = time.perf_counter() - begin_s
        asked = [(time.process_time(), memory_mib()), *[await other.ask("usage") for other in others]]
    took_ms.sort()
    cpu_s = [after - before for (after, _), before in zip(asked, used, strict=True)]
    return Result(
        case=case,
        rate=len(took_ms) / lasted_s,
        p50_ms=statistics.median(took_ms),
        p99_ms=took_ms[len(took_ms) * 99 // 100],
        worst_ms=took_ms[-1],
        cpu_us=sum(cpu_s) / len(took_ms) * 1e6,
        callers_cpu_us=cpu_s[0] / len(took_ms) * 1e6,
        memory_mib=max(memory for _, memory in asked),
    )


def main(chosen: argparse.Namespace) -> None:
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    cases = [
        Case(
            on=chosen.on,
            work=chosen.work,
            callers=int(callers),
            serde=chosen.serde,
            size_bytes=chosen.size,
            own_thread=chosen.own_thread,
        )
        for callers in chosen.callers.split(",")
    ]
    results = []
    for case in cases * chosen.rounds:
        with (
            tempfile.TemporaryDirectory(dir=chosen.directory) as folder,
            asyncio.Runner(loop_factory=loop_factory("auto")) as runner,
        ):
            result = runner.run(measure(Path(folder), case, chosen.seconds))
        print(result, flush=True)
        results.append(asdict(result))
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Commands and reads a second of a replicated state machine.")
    parser.add_argument("--on", default="leader", choices=("leader", "follower"), help="where the callers are")
    parser.add_argument("--work", default="execute", choices=("execute", "read"))
    parser.add_argument("--callers", default="1,64,1024", help="how many call at a time; several, with commas")
    parser.add_argument("--serde", default="bytes", choices=("bytes", "json"), help="what a command is")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--size", type=int, default=100, help="bytes of key and value of a command")
    parser.add_argument("--directory", type=Path, help="on the disk in question; a temporary folder by default")
    parser.add_argument("--own-thread", action="store_true", help="each node in a thread of its own")
    parser.add_argument("--rounds", type=int, default=1, help="how often to measure each case, in turn")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    main(parser.parse_args())

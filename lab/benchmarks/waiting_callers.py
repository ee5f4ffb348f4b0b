"""What calls of `execute` cost while they wait for a quorum that cannot be reached.

    python -m lab.benchmarks.waiting_callers [--callers N,…] [--seconds S] [--rounds N] [--directory DIR]

Both other nodes of a quorum of three are away; so many calls begin, 100 in each turn of the loop, and wait. A node
*without a session* was never in a quorum: its calls end with their timeout. A node *with a session* lost its quorum a
moment ago; the others come back after so many seconds, and all its calls have to be executed.

Prints the processor time of the process with the callers, and how long its loop was stopped at the most, for each part:
while the calls begin, while they wait, and while they end. Linear costs are those that double with the calls.
"""

import argparse
import asyncio
import multiprocessing
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final

from lab.benchmarks.machine_quorum import CALLERS_ID, NODES, NodeSetting, OtherProcess, new_node, quorum
from pykraft.errors import NotAppliedError, OutcomeUnknownError
from pykraft.local.voters import HOST
from pykraft.machine import Replicated
from pykraft.machine.replicated import TIMEOUT_MS_MAX
from pykraft.server.run import SWITCH_INTERVAL_S, loop_factory

IN_A_TURN: Final = 100
WATCH_S: Final = 0.001


class Watch:
    """How long the running loop was stopped, by a callback that should run each millisecond."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._due_s = self._loop.time()
        self._longest_s = 0.0
        self._run()

    def _run(self) -> None:
        now_s = self._loop.time()
        self._longest_s = max(self._longest_s, now_s - self._due_s)
        self._due_s = now_s + WATCH_S
        self._handle = self._loop.call_at(self._due_s, self._run)

    def close(self) -> None:
        self._handle.cancel()

    @contextmanager
    def part(self, what: str) -> Iterator[None]:
        """Print what this part of the work cost."""
        self._longest_s, begin_s, used_s = 0.0, time.perf_counter(), time.process_time()
        yield
        used_s, took_s = time.process_time() - used_s, time.perf_counter() - begin_s
        self._run()
        print(
            f"  {what:<14} {used_s:>6.2f} s of CPU in {took_s:>5.1f} s, loop stopped {self._longest_s * 1e3:>5.0f} ms"
        )


class Callers:
    """So many calls, each in a task of its own, as the requests of a web application are."""

    def __init__(self, node: Replicated[Any], count: int, timeout_ms: int) -> None:
        self.outcomes = Counter[str]()
        self._node = node
        self._left = count
        self._timeout_ms = timeout_ms
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks: list[asyncio.Task[None]] = []

    async def begin(self) -> None:
        loop = asyncio.get_running_loop()
        for number in range(self._left):
            self._tasks.append(loop.create_task(self._call(number)))
            if number % IN_A_TURN == 0:
                await asyncio.sleep(0)

    async def end(self) -> None:
        """Wait until all have ended."""
        await self._ended

    async def _call(self, number: int) -> None:
        try:
            await self._node.execute(b"%08d" % number, timeout_ms=self._timeout_ms)
            self.outcomes["executed"] += 1
        except (NotAppliedError, OutcomeUnknownError) as error:
            self.outcomes[type(error).__name__] += 1
        finally:
            self._left -= 1
            if not self._left:
                self._ended.set_result(None)


async def measure(
    node: Replicated[Any], count: int, seconds: float, timeout_ms: int, back: Callable[[], Awaitable[object]]
) -> None:
    """Print the three parts; ``back`` is called as the last one begins."""
    with closing(Watch()) as watch:
        callers = Callers(node, count, timeout_ms)
        with watch.part("they begin"):
            await callers.begin()
        with watch.part("they wait"):
            await asyncio.sleep(seconds)
        with watch.part("they end"):
            await back()
            await callers.end()
    print("  " + ", ".join(f"{number:,} {what}" for what, number in callers.outcomes.items()), flush=True)


def dead_addresses(stack: ExitStack) -> list[str]:
    """An address for each other voter where nobody listens, and nobody else can."""
    sockets = [stack.enter_context(socket.socket()) for _ in range(NODES - 1)]
    for each in sockets:
        each.bind((HOST, 0))
    return ["{}:{}".format(*each.getsockname()) for each in sockets]


async def nobody() -> None:
    """Comes back."""


async def without_session(setting: NodeSetting, callers: int, seconds: float) -> None:
    node = new_node(setting, CALLERS_ID)
    await node.bind()
    with ExitStack() as stack:
        others = dict(enumerate(dead_addresses(stack), CALLERS_ID + 1))
        await node.initialize({CALLERS_ID: str(node.node.endpoint)} | others)
        try:
            # The calls end by their timeout, the first one a moment after the wait.
            await measure(node, callers, seconds, int(seconds * 1_000) + 1_000, nobody)
        finally:
            await node.close()


async def with_session(setting: NodeSetting, callers: int, seconds: float) -> None:
    async with quorum(setting, leads=False) as (node, others):
        await node.execute(b"00000000")
        voters = {CALLERS_ID: str(node.node.endpoint)}
        voters |= {other.node_id: await other.ask("endpoint") for other in others}
        while others:
            await others.pop().end()

        async def come_back() -> None:
            for node_id in range(CALLERS_ID + 1, CALLERS_ID + NODES):
                others.append(OtherProcess(setting, node_id, voters))
                await others[-1].ask("initialize", voters)

        await measure(node, callers, seconds, TIMEOUT_MS_MAX, come_back)


CASES: Final = {"without": without_session, "with": with_session}


def measure_case(what: str, count: int, seconds: float, directory: Path | None) -> None:
    """The main function of a process of its own, in which nothing else has left garbage."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    print(f"{count:,} calls, {what} a session", flush=True)
    with (
        tempfile.TemporaryDirectory(dir=directory) as folder,
        asyncio.Runner(loop_factory=loop_factory("auto")) as runner,
    ):
        setting = NodeSetting(folder=Path(folder), machine="bytes")
        runner.run(CASES[what](setting, count, seconds))


def main(chosen: argparse.Namespace) -> int:
    for count in [int(each) for each in chosen.callers.split(",")] * chosen.rounds:
        for what in CASES:
            process = multiprocessing.get_context("spawn").Process(
                target=measure_case, args=(what, count, chosen.seconds, chosen.directory)
            )
            process.start()
            process.join()
            if process.exitcode != 0:
                return 1
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Calls of `execute` that wait for a quorum.")
    parser.add_argument("--callers", default="4000,8000,16000", help="how many call at a time; several, with commas")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long they wait")
    parser.add_argument("--rounds", type=int, default=1, help="how often to measure each case, in turn")
    parser.add_argument("--directory", type=Path, help="on the disk in question; a temporary folder by default")
    sys.exit(main(parser.parse_args()))

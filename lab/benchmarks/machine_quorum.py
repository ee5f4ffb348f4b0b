"""Quorums of replicated state machines for the benchmarks: the callers' node in this process, each other in its own.

The other processes get their orders through a pipe. Invariant: every process ends with the benchmark.
"""

import asyncio
import json
import multiprocessing
import resource
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar, Final

from pykraft.client import bytes_serde, configure
from pykraft.config import LogSettings
from pykraft.errors import PykraftError
from pykraft.machine import Applied, Replicated, StateMachine
from pykraft.recipes import KeyValues
from pykraft.server.run import SWITCH_INTERVAL_S, loop_factory

NODES: Final = 3
CALLERS_ID: Final = 1
"""The node of this process."""
OTHER_ID: Final = 2
"""It leads when the callers are on a follower."""
KEY_SIZE_BYTES: Final = 8


class ByteValues(StateMachine[bytes, int]):
    """Values by the first bytes of a command; it counts the commands."""

    commands: ClassVar[Any] = bytes_serde

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.count = 0

    def apply(self, command: bytes, context: Applied) -> int:
        del context
        self.values[command[:KEY_SIZE_BYTES]] = command
        self.count += 1
        return self.count

    def snapshot(self) -> Iterable[bytes]:
        """The commands that put the present values, after the count."""
        return [str(self.count).encode(), *self.values.values()]

    def restore(self, records: Iterable[bytes]) -> None:
        count, *values = records
        self.count = int(count)
        self.values = {value[:KEY_SIZE_BYTES]: value for value in values}


@dataclass
class Put:
    """A command in the default serde."""

    key: str
    value: str


class JsonValues(StateMachine[Put, int]):
    """As `ByteValues`, with a dataclass."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self.count = 0

    def apply(self, command: Put, context: Applied) -> int:
        del context
        self.values[command.key] = command.value
        self.count += 1
        return self.count

    def snapshot(self) -> Iterable[bytes]:
        return [json.dumps([self.count, self.values]).encode()]

    def restore(self, records: Iterable[bytes]) -> None:
        [record] = records
        self.count, self.values = json.loads(record)


MACHINES: Final[dict[str, Callable[[], StateMachine[Any, Any]]]] = {
    "bytes": ByteValues,
    "json": JsonValues,
    "store": KeyValues,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSetting:
    """What all nodes have in common; ``machine`` is one of `MACHINES`."""

    folder: Path
    machine: str
    own_thread: bool = False
    log: LogSettings = field(default_factory=LogSettings)


def new_node(setting: NodeSetting, node_id: int, voters: dict[int, str] | None = None) -> Replicated[Any]:
    config = configure(setting.folder / f"n{node_id}", node_id=node_id, voters=voters, log=setting.log)
    return Replicated(config, MACHINES[setting.machine](), own_thread=setting.own_thread)


class OtherProcess:
    """A node in a process of its own. A request through its pipe begins with a word of `obey`."""

    def __init__(self, setting: NodeSetting, node_id: int, voters: dict[int, str] | None = None) -> None:
        """With ``voters`` a node listens at its own entry, if it has one."""
        context = multiprocessing.get_context("spawn")
        self.node_id = node_id
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=obey, args=(theirs, setting, node_id, voters), daemon=True)
        self._process.start()
        theirs.close()

    async def ask(self, *request: object) -> Any:  # noqa: ANN401 - whatever the other end sends
        """Send a request, and wait for the answer."""
        self._pipe.send(request)
        return await asyncio.to_thread(self._pipe.recv)

    async def end(self) -> None:
        """Close its node, and wait for the end of the process."""
        await self.ask("close")
        await asyncio.to_thread(self._process.join)


def obey(pipe: Connection, setting: NodeSetting, node_id: int, voters: dict[int, str] | None) -> None:
    """The main function of such a process."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)

    async def main() -> None:
        node = new_node(setting, node_id, voters)
        await node.bind()
        while True:
            word, *arguments = await asyncio.to_thread(pipe.recv)
            match word:
                case "endpoint":
                    pipe.send(str(node.node.endpoint))
                case "initialize":
                    await node.initialize(*arguments)
                    pipe.send(None)
                case "hand over":
                    await hand_over(node, *arguments)
                    pipe.send(None)
                case "revision":
                    pipe.send(node.machine.space.revision)
                case "join":
                    await node.membership.join()
                    pipe.send(None)
                case "act":
                    act, *given = arguments
                    pipe.send(await act(node, *given))
                case "usage":
                    pipe.send((time.process_time(), memory_mib()))
                case _:
                    await node.close()
                    pipe.send(None)
                    return

    with asyncio.Runner(loop_factory=loop_factory("auto")) as runner:
        runner.run(main())


async def hand_over(node: Replicated[Any], to: int) -> None:
    """If this node leads, transfer the leadership."""
    if node.node.leader_and_epoch.is_leader(node.node.node_id) and node.node.node_id != to:
        with suppress(PykraftError):
            await node.node.transfer_leadership(to)


@asynccontextmanager
async def quorum(setting: NodeSetting, *, leads: bool) -> AsyncIterator[tuple[Replicated[Any], list[OtherProcess]]]:
    """The callers' node in this process, each other in one of its own; ``leads``: this one is to lead.

    Processes that leave the list are the caller's to end, and those that come to it end with the others.
    """
    node = new_node(setting, CALLERS_ID)
    others = [OtherProcess(setting, node_id) for node_id in range(CALLERS_ID + 1, CALLERS_ID + NODES)]
    async with AsyncExitStack() as stack:
        stack.push_async_callback(_end_all, others)
        await node.bind()
        voters = {CALLERS_ID: str(node.node.endpoint)}
        voters |= {other.node_id: await other.ask("endpoint") for other in others}
        await node.initialize(voters)
        stack.push_async_callback(node.close)
        for other in others:
            await other.ask("initialize", voters)
        leader_id = CALLERS_ID if leads else OTHER_ID
        while not (await node.node.wait_for_leader()).is_leader(leader_id):
            await hand_over(node, leader_id)
            for other in others:
                await other.ask("hand over", leader_id)
        yield node, others


async def _end_all(others: list[OtherProcess]) -> None:
    for other in others:
        await other.end()


def memory_mib() -> float:
    """The highest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

"""The state machine of these tests: counters by name, and nodes that replicate them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from pykraft.config import RaftConfig
from pykraft.errors import CommandRejectedError, PykraftError
from pykraft.machine import Applied, Replicated, StateMachine
from pykraft.machine.replica import MachineReplica
from tests.client.nodes import QUICK, config_of, voters_of


@dataclass
class Add:
    """Add to a counter, which must not go below 0."""

    key: str
    amount: int


class Counters(StateMachine[Add, int]):
    """Counters by name; it remembers the context of each command."""

    def __init__(self) -> None:
        self.totals: dict[str, int] = {}
        self.contexts: list[Applied] = []
        self.restored = 0

    def apply(self, command: Add, context: Applied) -> int:
        self.contexts.append(context)
        total = self.totals.get(command.key, 0) + command.amount
        if total < 0:
            raise CommandRejectedError(f"{command.key} would be {total}")
        self.totals[command.key] = total
        return total

    def snapshot(self) -> Iterable[bytes]:
        for key, total in self.totals.items():
            yield f"{key}={total}".encode()

    def restore(self, records: Iterable[bytes]) -> None:
        self.restored += 1
        self.totals = {}
        for record in records:
            key, _, total = record.decode().rpartition("=")
            self.totals[key] = int(total)


Node = Replicated[Counters]
M = TypeVar("M", bound=StateMachine[Any, Any])


@asynccontextmanager
async def nodes_of(
    make: Callable[[], M],
    folder: Path,
    count: int = 3,
    *,
    own_thread: bool = False,
    raft: RaftConfig = QUICK,
    check_every: int | None = None,
    **others: Any,
) -> AsyncIterator[list[Replicated[M]]]:
    """Nodes from id 1 on, with a state machine each; closed at the end."""
    async with AsyncExitStack() as stack:
        nodes = [
            Replicated(
                config_of(folder, at, raft=raft, **others), make(), own_thread=own_thread, check_every=check_every
            )
            for at in range(1, count + 1)
        ]
        for each in nodes:
            await each.bind()
        voters = voters_of([each.node for each in nodes])
        for each in nodes:
            await each.initialize(voters)
            stack.push_async_callback(each.close)
        yield nodes


def machines(
    folder: Path, count: int = 3, *, machine: Callable[[], Counters] = Counters, **others: Any
) -> AbstractAsyncContextManager[list[Node]]:
    """`nodes_of` counters."""
    return nodes_of(machine, folder, count, **others)


async def leader_of(nodes: Sequence[Replicated[M]]) -> Replicated[M]:
    """The node that leads, when all agree on it."""
    while True:
        seen = {await each.node.wait_for_leader() for each in nodes}
        if len(seen) == 1:
            [found] = seen
            return next(each for each in nodes if each.node.node_id == found.leader_id)


async def make_leader(node: Node, nodes: Sequence[Node]) -> None:
    """Transfer the leadership to this node, however often another one takes it meanwhile."""
    target_id = node.node.node_id
    assert target_id is not None
    while (leader := await leader_of(nodes)) is not node:
        with suppress(PykraftError):
            await leader.node.transfer_leadership(target_id, timeout_ms=10_000)


async def next_turn() -> None:
    """Let all other tasks of the loop run that are ready."""
    loop = asyncio.get_running_loop()
    turn: asyncio.Future[None] = loop.create_future()
    loop.call_soon(turn.set_result, None)
    await turn


def load(replica: MachineReplica[Any, Any], values: Iterable[bytes]) -> None:
    """Let a replica load a snapshot that waits for no disk."""

    async def each() -> AsyncIterator[bytes]:
        for value in values:
            yield value

    with pytest.raises(StopIteration):
        replica.load(each()).send(None)


def state_of(node: Node) -> Counters:
    return node.machine

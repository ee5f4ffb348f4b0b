"""Embedded nodes for tests: configurations with short timeouts, and a listener to wait on."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pykraft.client import LeaderAndEpoch, Node, Reader, configure, text_serde, voter_set
from pykraft.config import NodeConfig, RaftConfig
from pykraft.types import ControlRecord, VoterSet
from tests.loops import judged

TIMEOUT_S = 20.0
QUICK = RaftConfig(
    election_timeout_ms=100,
    fetch_timeout_ms=1_000,
    election_backoff_max_ms=50,
    append_linger_ms=0,
    fetch_wait_ms_max=100,
)
BOTH = pytest.mark.parametrize("own_thread", [False, True], ids=["same-loop", "own-thread"])


def config_of(folder: Path, node_id: int | None = 1, *, raft: RaftConfig = QUICK, **others: Any) -> NodeConfig:
    """A node whose voters are named later; it listens on a free port. ``others`` are fields of its configuration."""
    return replace(configure(folder / f"n{node_id}", node_id=node_id, raft=raft), **others)


def alone(folder: Path, *, raft: RaftConfig = QUICK) -> NodeConfig:
    """A quorum of one."""
    return configure(folder / "n1", node_id=1, voters={1: "127.0.0.1:0"}, raft=raft)


def voters_of(nodes: Sequence[Node[Any]]) -> VoterSet:
    """These nodes, which are bound, as voters."""
    return voter_set({node.node_id: str(node.endpoint) for node in nodes if node.node_id is not None})


@asynccontextmanager
async def quorum(
    folder: Path, count: int = 3, *, own_thread: bool = False, raft: RaftConfig = QUICK, **others: Any
) -> AsyncIterator[list[Node[str]]]:
    """Nodes from id 1 on that know each other and are begun; closed at the end."""
    async with AsyncExitStack() as stack:
        nodes = [
            Node(config_of(folder, node_id, raft=raft, **others), text_serde, own_thread=own_thread)
            for node_id in range(1, count + 1)
        ]
        for node in nodes:
            await node.bind()
        voters = voters_of(nodes)
        for node in nodes:
            await node.initialize(voters)
            stack.push_async_callback(node.close)
        yield nodes


async def leader_of(nodes: Sequence[Node[Any]]) -> Node[Any]:
    """The node that leads, when all agree on it."""
    while True:
        seen = [await node.wait_for_leader() for node in nodes]
        if len(set(seen)) == 1:
            return next(node for node in nodes if node.node_id == seen[0].leader_id)


class Recorder:
    """A listener that notes what it is told, and can be waited on."""

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.offsets: list[tuple[int, int]] = []
        self.control: list[ControlRecord] = []
        self.leaders: list[LeaderAndEpoch] = []
        self.threads: set[asyncio.AbstractEventLoop] = set()
        self.goodbyes = 0
        self._changed = asyncio.Event()

    def handle_commit(self, reader: Reader[Any]) -> None:
        self.threads.add(asyncio.get_running_loop())
        for batch in reader:
            self.records += batch.records
            self.control += batch.control_records
            self.offsets.append((batch.base_offset, batch.last_offset))
        self._changed.set()

    def handle_leader_change(self, leader_and_epoch: LeaderAndEpoch) -> None:
        self.threads.add(asyncio.get_running_loop())
        self.leaders.append(leader_and_epoch)
        self._changed.set()

    def begin_shutdown(self) -> None:
        self.goodbyes += 1

    async def wait_for(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():
                await self._changed.wait()
                self._changed.clear()

    async def sees(self, *records: Any) -> None:
        """Wait until it was given as many records; they are these."""
        await self.wait_for(lambda: len(self.records) >= len(records))
        assert self.records == [*records]


class Gated(Recorder):
    """Waits within each commit until it may go on; one call at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.began, self.may_go_on = asyncio.Event(), asyncio.Event()
        self._is_called = False

    async def handle_commit(self, reader: Reader[Any]) -> None:  # type: ignore[override]
        assert not self._is_called
        self._is_called = True
        self.began.set()
        await self.may_go_on.wait()
        super().handle_commit(reader)
        self._is_called = False


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run this on a loop of its own, judged as a test that is a coroutine."""
    asyncio.run(judged(main()))

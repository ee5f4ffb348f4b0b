"""A node that ends while its disk stalls keeps its directory locked until nothing can be written any more."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pykraft.config import NodeConfig
from pykraft.errors import StorageError
from pykraft.log.os_fs import OsFs
from pykraft.server import driver as driver_module
from pykraft.server.clock import now
from pykraft.server.driver import Driver
from tests.server.nodes import TIMEOUT_S, StallingFs, Watcher, node_configs
from tests.server.station import turns

LANES = ("pykraft-ordered-lane", "pykraft-bulk-lane", "pykraft-closing")


BOTH_LANES = pytest.mark.parametrize(
    "lane", [lambda stall, node: stall.ordered(node), lambda stall, node: stall.bulk(node)], ids=["ordered", "bulk"]
)
TURNS = 1_000


class Stall:
    """What keeps a lane busy until it is let go."""

    def __init__(self) -> None:
        self.fs = StallingFs()
        self.gate = threading.Event()
        self.has_begun = threading.Event()

    def ordered(self, node: Driver) -> None:
        """The ordered lane waits for a sync."""
        self.has_begun = self.fs.is_stalled
        self.fs.gate.clear()
        node.host.propose([b"a"], epoch=node.host.status.epoch, now=now(), on_outcome=lambda _: None)

    def bulk(self, node: Driver) -> None:
        """The bulk lane waits for a read; syncs go on, so nothing but this read is in the way of closing."""
        node.submit_read(self._read, lambda _: None)

    def let_go(self) -> None:
        """The disk answers again."""
        self.gate.set()
        self.fs.gate.set()

    def end(self) -> None:
        """The disk answers, and all lanes end."""
        self.let_go()
        for thread in threading.enumerate():
            if thread.name in LANES:
                thread.join(TIMEOUT_S)
        gc.collect()

    def _read(self) -> None:
        self.has_begun.set()
        assert self.gate.wait(TIMEOUT_S)


@pytest.fixture
def stall() -> Iterator[Stall]:
    """It ends with the test, so that no thread outlives it."""
    made = Stall()
    yield made
    made.end()


async def ending(stall: Stall, config: NodeConfig, lane: Callable[[Stall, Driver], None]) -> asyncio.Task[None]:
    """A node that leads, was told to shut down, and waits for a lane."""
    node = Driver(config, asyncio.get_running_loop(), fs=stall.fs)
    watcher = Watcher()
    node.host.register(watcher)
    task = asyncio.create_task(node.run())
    await watcher.leader()
    lane(stall, node)
    while not stall.has_begun.is_set():
        await asyncio.wait([task], timeout=0.001)
    node.shut_down()
    node.shut_down()
    return task


@BOTH_LANES
def test_the_directory_stays_locked_while_one_lane_is_at_work(
    stall: Stall,
    runner: asyncio.Runner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lane: Callable[[Stall, Driver], None],
) -> None:
    monkeypatch.setattr(driver_module, "LANE_STOP_TIMEOUT_S", 0.05)
    [config] = node_configs(tmp_path, 1)

    async def main() -> None:
        await asyncio.wait_for(await ending(stall, config, lane), TIMEOUT_S)
        asyncio.get_running_loop().set_exception_handler(None)

    runner.run(main())
    gc.collect()
    with pytest.raises(StorageError, match="cannot lock"):
        OsFs().lock(config.log_dir / ".lock")
    stall.end()
    OsFs().lock(config.log_dir / ".lock").release()


@BOTH_LANES
async def test_the_loop_of_the_application_turns_while_its_node_waits_for_the_disk(
    stall: Stall,
    runner: asyncio.Runner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lane: Callable[[Stall, Driver], None],
) -> None:
    """The loop stood still for as long as the node waited. The node still waits after many turns of the loop here."""
    monkeypatch.setattr(driver_module, "LANE_STOP_TIMEOUT_S", TIMEOUT_S)
    [config] = node_configs(tmp_path, 1)
    task = await ending(stall, config, lane)
    while not any(thread.name == "pykraft-closing" for thread in threading.enumerate()):
        assert not task.done()
        await asyncio.wait([task], timeout=0.001)
    await turns(asyncio.get_running_loop(), TURNS)
    assert not task.done()
    stall.let_go()
    await asyncio.wait_for(task, TIMEOUT_S)
    asyncio.get_running_loop().set_exception_handler(None)

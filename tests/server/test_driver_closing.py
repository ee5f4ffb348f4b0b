"""A node that ends while its disk stalls keeps its directory locked; an error without an owner in the loop is told."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pykraft.config import NodeConfig
from pykraft.errors import StorageError
from pykraft.log.os_fs import OsFs
from pykraft.server import driver as driver_module
from pykraft.server.clock import now
from pykraft.server.driver import BURST_MAX, Driver
from tests.server.nodes import TIMEOUT_S, StallingFs, Watcher, node_configs
from tests.server.station import turns
from tests.server.test_driver import Served

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


def test_trouble_of_the_network_is_one_line(
    runner: asyncio.Runner, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pykraft")
    [config] = node_configs(tmp_path, 1)

    async def main() -> None:
        served = Served(config)
        await served.watcher.leader()
        error = OSError(24, "Too many open files")
        asyncio.get_running_loop().call_exception_handler({"message": "accept failed", "exception": error})
        assert await served.api_keys()
        await served.leave()

    runner.run(main())
    assert "accept failed: [Errno 24] Too many open files" in caplog.text


def raise_full_disk() -> None:
    raise OSError(28, "No space left on device")


async def raise_full_disk_in_a_task() -> None:
    raise_full_disk()


@pytest.mark.parametrize("in_a_task", [False, True])
async def test_an_os_error_without_a_socket_is_ours(runner: asyncio.Runner, tmp_path: Path, in_a_task: bool) -> None:
    [config] = node_configs(tmp_path, 1)
    served = Served(config)
    await served.watcher.leader()
    loop = asyncio.get_running_loop()
    if in_a_task:
        await asyncio.wait([loop.create_task(raise_full_disk_in_a_task())])
        gc.collect()
    else:
        loop.call_soon(raise_full_disk)
    with pytest.raises(OSError, match="No space left on device"):
        await served.ended()


def test_a_flood_of_failed_connections_is_a_few_lines(
    runner: asyncio.Runner, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pykraft")
    [config] = node_configs(tmp_path, 1)

    async def main() -> None:
        served = Served(config)
        await served.watcher.leader()
        context = {"message": "accept failed", "exception": OSError(24, "Too many open files"), "socket": None}
        for _ in range(10 * BURST_MAX):
            asyncio.get_running_loop().call_exception_handler(context)
        await served.leave()

    runner.run(main())
    assert BURST_MAX <= caplog.text.count("accept failed") < 2 * BURST_MAX

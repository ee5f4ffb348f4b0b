"""Exceptions without an owner in the loop: network errors are a few lines, our own errors end the node."""

from __future__ import annotations

import asyncio
import gc
import logging
from pathlib import Path

import pytest

from pykraft.server.driver import BURST_MAX
from tests.server.nodes import node_configs
from tests.server.test_driver import Served


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

"""A node whose disk stalls while it is closed: its loop goes on, and everybody who waits has an answer."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pykraft.host.producers import Outcome, OutcomeUnknown
from tests.server.nodes import node_configs
from tests.server.stalling_fs import StallingFs
from tests.server.test_driver import Served, within_time


@pytest.mark.parametrize("is_at_work", [True, False])
def test_the_loop_goes_on_while_a_stalled_disk_keeps_the_files_from_being_closed(
    runner: asyncio.Runner, tmp_path: Path, is_at_work: bool
) -> None:
    """1. The lane, or closing the log, waits for the disk; 2. the loop lets it go on, which it cannot if it waits."""
    [config] = node_configs(tmp_path, 1)
    fs = StallingFs()

    async def main() -> None:
        served = Served(config, fs=fs)
        epoch, _ = await served.watcher.leader()
        await within_time(served.propose(b"a", epoch=epoch))
        fs.gate.clear()
        outcome: asyncio.Future[Outcome] | None = None
        if is_at_work:
            outcome = served.propose(b"b", epoch=epoch)
            while not fs.is_stalled.is_set():
                await asyncio.wait([served.task], timeout=0.001)
        served.node.stop(None)
        while not fs.is_stalled.is_set():
            await asyncio.wait([served.task], timeout=0.001)
        await asyncio.wait([served.task], timeout=0.001)
        if outcome is not None:
            assert isinstance(outcome.result(), OutcomeUnknown), "nobody waits for the disk to be told"
        fs.gate.set()
        await served.ended()
        again = Served(config, fs=fs)
        await again.watcher.leader()
        await again.leave()

    runner.run(main())

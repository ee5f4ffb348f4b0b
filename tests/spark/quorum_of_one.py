"""A real quorum of one node, in this process, for what reads a live quorum."""

import asyncio
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pykraft.client.remote.observer import Observer
from pykraft.config import RaftConfig
from pykraft.host.delivery import CommittedBatch
from pykraft.host.producers import Committed, ProposalOutcome
from pykraft.protocol.records import decode_records
from pykraft.security.settings import IN_THE_CLEAR, Security
from pykraft.server.clock import now
from pykraft.server.driver import Driver
from pykraft.types import Endpoint, Offset
from tests.server.nodes import QUICK, TIMEOUT_S, Watcher, node_configs

CLUSTER_ID = "a-cluster-of-these-tests"


def logged_values(controllers: Sequence[Endpoint], security: Security = IN_THE_CLEAR) -> list[bytes | None]:
    """The value of each committed data record of a live quorum, in the order of the log."""

    async def read() -> list[bytes | None]:
        found: list[bytes | None] = []
        async with Observer(controllers, security=security) as observer:
            await observer.begin()
            end_offset = observer.high_watermark
            assert end_offset is not None
            while (observer.next_offset or 0) < end_offset:
                batch = await anext(observer)
                if not batch.is_control:
                    found += [record.value for record in decode_records(batch.data)]
        return found

    return asyncio.run(read())


class LeaderWatcher(Watcher):
    """Waits for the leader; it does not read the records, which may be those of any client."""

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """See `Watcher`."""


class OneNode:
    """A quorum of one, on a loop in a thread of its own."""

    def __init__(
        self,
        folder: Path,
        *,
        cluster_id: str = CLUSTER_ID,
        raft: RaftConfig = QUICK,
        serves_clients: bool = False,
        **changes: Any,
    ) -> None:
        """``changes`` are fields of its configuration."""
        (config,) = node_configs(folder, 1, raft=replace(raft, append_linger_ms=0))
        names = tuple(name for name, _ in config.listeners.entries) if serves_clients else ()
        self._config = replace(config, cluster_id=cluster_id, client_listeners=names, **changes)
        self.endpoint: Endpoint = config.listeners.entries[0][1]
        self._loop = asyncio.new_event_loop()
        self._watcher = LeaderWatcher()
        self._thread = threading.Thread(target=self._run, name="a quorum of one")
        self._leads = threading.Event()
        self._driver: Driver | None = None
        self._thread.start()
        assert self._leads.wait(TIMEOUT_S)

    def append(self, *values: bytes) -> Offset:
        """One batch, committed when this returns; its base offset."""

        async def main() -> ProposalOutcome:
            assert self._driver is not None
            done: asyncio.Future[ProposalOutcome] = asyncio.get_running_loop().create_future()
            host = self._driver.host
            host.propose(values, epoch=host.status.epoch, now=now(), on_outcome=done.set_result)
            return await done

        outcome = asyncio.run_coroutine_threadsafe(main(), self._loop).result(TIMEOUT_S)
        assert isinstance(outcome, Committed)
        return outcome.base_offset

    def stop(self) -> None:
        """Leave, and wait until it has left; once more has no effect."""
        assert self._driver is not None
        if not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._driver.shut_down)
        self._thread.join(TIMEOUT_S)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._main())
        self._loop.close()

    async def _main(self) -> None:
        self._driver = Driver(self._config, self._loop)
        self._driver.host.register(self._watcher)
        running = asyncio.ensure_future(self._driver.run())
        await self._watcher.leader()
        self._leads.set()
        with suppress(asyncio.CancelledError):
            await running

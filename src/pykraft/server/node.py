"""One node on a real machine: the host's `Ports` over asyncio, sockets and threads.

Everything of the host runs on the loop's thread. Any exception in it, in a task or in a lane ends the node
with its story: going on after a bug or a failed write could lose what was acknowledged.

Source: Kafka ``KafkaRaftClientDriver`` and ``FaultHandler``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from pykraft.config import NodeConfig
from pykraft.host.host import Host
from pykraft.host.ports import ConnectionId
from pykraft.log.lane import Job
from pykraft.log.os_fs import OsFs
from pykraft.server.clock import now
from pykraft.server.lanes import BulkThread, OrderedThread
from pykraft.server.links import LinkLimits, Links
from pykraft.types import Buffer, Endpoint, Io

T = TypeVar("T")
LAG_PERIOD_S = 0.1
SHUTDOWN_TIMEOUT_MS = 5_000
LANE_STOP_TIMEOUT_S = 5.0

logger = logging.getLogger("pykraft")


class Node:
    """Runs a host until it ends; see `run`."""

    def __init__(self, config: NodeConfig, loop: asyncio.AbstractEventLoop) -> None:
        """Opens the log directory and recovers; nothing is listened to yet.

        Errors: whatever `Host.open` raises: ConfigError, ForeignDirectoryError, CorruptionError, StorageError.
        """
        self._config = config
        self._loop = loop
        self._ended: asyncio.Future[Exception | None] = loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self.host = Host.open(OsFs(), self, config, rng=Random())
        self._ordered = OrderedThread(loop, self.host.lane, done=self._done, failed=self.fail)
        self._bulk = BulkThread(loop, failed=self.fail)
        limits = LinkLimits(
            frame_size_bytes_max=config.request_size_bytes_max,
            idle_ms_max=config.connections_idle_ms_max,
            dial_ms_max=config.raft.request_timeout_ms,
        )
        self._links = Links(loop, self, limits, guard=self.fail)

    async def start(self) -> None:
        """Listen, then take the first step. Raises OSError when an address is taken."""
        for name, endpoint in self._config.listeners:
            await self._links.listen(name, endpoint)
        self._loop.set_exception_handler(self._on_loop_exception)
        self._loop.call_later(LAG_PERIOD_S, self._watch_lag, self._loop.time() + LAG_PERIOD_S)
        self._guarded(self.host.start, now())

    async def run(self) -> None:
        """Serve until the host ends; then stop listening and finish what storage was given.

        Errors: what ended the node, if it was not a graceful shutdown.
        """
        try:
            error = await self._ended
        finally:
            self._links.close_all()
            self._bulk.stop()
            is_idle = self._ordered.stop(LANE_STOP_TIMEOUT_S)
        if error is not None:
            raise error
        if is_idle:
            self.host.close()

    def shut_down(self) -> None:
        """Begin to leave gracefully."""
        self._guarded(self.host.shutdown, SHUTDOWN_TIMEOUT_MS, now())

    def fail(self, error: BaseException) -> None:
        """End the node with this error; the first one counts."""
        if not self._ended.done():
            failure = error if isinstance(error, Exception) else RuntimeError(f"{type(error).__name__}: {error}")
            self._ended.set_result(failure)

    def link_accepted(self, connection: ConnectionId, listener: str) -> None:
        """See `LinkOwner`."""
        self.host.on_accepted(connection, listener, now())

    def link_connected(self, connection: ConnectionId) -> None:
        """See `LinkOwner`."""
        self.host.on_connected(connection, now())

    def link_closed(self, connection: ConnectionId) -> None:
        """See `LinkOwner`."""
        self.host.on_closed(connection, now())

    def link_received(self, connection: ConnectionId, frame: Buffer) -> None:
        """See `LinkOwner`."""
        self.host.on_frame(connection, frame, now())

    def dial(self, endpoint: Endpoint) -> ConnectionId:
        """See `Ports`."""
        return self._links.dial(endpoint)

    def send(self, connection: ConnectionId, parts: Sequence[Buffer]) -> None:
        """See `Ports`."""
        self._links.send(connection, parts)

    def close(self, connection: ConnectionId) -> None:
        """See `Ports`."""
        self._links.close(connection)

    def submit(self, job: Job) -> None:
        """See `Ports`."""
        self._ordered.submit(job)

    def submit_read(self, read: Callable[[], T], then: Callable[[T], None]) -> None:
        """See `Ports`."""
        self._bulk.submit(read, lambda result: self._guarded(then, result))

    def wake_at(self, mono_ms: int | None) -> None:
        """See `Ports`; a timer that comes too early does no harm, so only an earlier wish sets a new one."""
        if mono_ms is None or (self._timer is not None and self._timer_ms <= mono_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = mono_ms
        delay_ms = max(0, mono_ms - now().mono_ms)
        self._timer = self._loop.call_later(delay_ms / 1_000, self._tick)

    def report(self, text: str) -> None:
        """See `Ports`."""
        logger.info(text)

    def stop(self, error: Exception | None) -> None:
        """See `Ports`."""
        if not self._ended.done():
            self._ended.set_result(error)

    def _tick(self) -> None:
        self._timer = None
        self._guarded(self.host.on_tick, now())

    def _done(self, io: Io) -> None:
        self._guarded(self.host.on_io, io, now())

    def _guarded(self, act: Callable[..., object], *arguments: object) -> None:
        """Call into the host; what it raises ends the node."""
        if self._ended.done():
            return
        try:
            act(*arguments)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the node ends with it
            self.fail(error)

    def _on_loop_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        del loop
        error = context.get("exception")
        self.fail(error if isinstance(error, BaseException) else RuntimeError(str(context.get("message"))))

    def _watch_lag(self, expected_s: float) -> None:
        """Warn when the loop was held up for so long that elections are near."""
        lag_ms = (self._loop.time() - expected_s) * 1_000
        if lag_ms > self._config.raft.fetch_timeout_ms / 4:
            logger.warning("the event loop was held up for %.0f ms; elections come at the fetch timeout", lag_ms)
        if not self._ended.done():
            self._loop.call_later(LAG_PERIOD_S, self._watch_lag, self._loop.time() + LAG_PERIOD_S)

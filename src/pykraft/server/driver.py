"""Runs one node on a real machine: the host's `Ports` over asyncio, sockets and threads.

Invariant: all of the host runs on the loop's thread, and any exception in it, in a task, in a callback or in a lane
ends the node with that error: continuing after a bug or a failed write could lose acknowledged records.

An alarm, and the first line of its kind, is always logged. Three rules leave lines of a report out:

1. Lines about connections never exceed a burst and a rate, since anyone who can connect may cause them; the next
   logged line says how many were left out.
2. A line that was reported less than REPEATED_S ago is logged at DEBUG only: a voter that has lost its majority
   changes between the same two states every few seconds.
3. A line that the directory is unproven is logged when that has lasted for a while: at a normal first start of a
   quorum it is over within moments. Then it is logged as it was reported, as an alarm if it is one.

Source: Kafka's ``KafkaRaftClientDriver`` and ``FaultHandler``; Linux's ``printk_ratelimit``; ours (ADR 056).
"""

import asyncio
import errno
import logging
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from random import Random
from time import thread_time
from typing import Final, TypeVar

from pykraft.config import NodeConfig
from pykraft.core.effects import Report
from pykraft.host.host import Host
from pykraft.host.metrics import Metric, Metrics
from pykraft.host.ports import CheckInSteps, ConnectionId
from pykraft.log.fs import Fs
from pykraft.log.lane import Job
from pykraft.log.os_fs import OsFs
from pykraft.security.files import FileReport, FromFiles
from pykraft.security.principal import RemoteEnd
from pykraft.security.settings import METRICS_NAME
from pykraft.server.binding import listening_sockets, not_bound, port_of
from pykraft.server.clock import TokenBucket, now
from pykraft.server.lanes import BulkThread, CheckThread, OrderedThread
from pykraft.server.links import LinkLimits, Links
from pykraft.server.prometheus import LoopWatch, PrometheusEndpoint, render, require_package
from pykraft.server.reload import ReloadSocket
from pykraft.server.secured import NodeTls, warn_of_host, warn_of_plaintext
from pykraft.text.words import counted
from pykraft.types import Buffer, Endpoint, Io, ReportKind

BURST_MAX: Final = 50
"""Lines about connections that may be written at once."""
LINES_PER_S: Final = 5.0
OF_CONNECTIONS: Final = (ReportKind.CONNECTION, ReportKind.REQUESTER_CLOSED)
REPEATED_S: Final = 60.0
REMEMBERED_MAX: Final = 100
"""Different lines whose last report is remembered; beyond that, the oldest is forgotten."""


class Reports:
    """Passes lines on to ``log``, with a level of `logging`; times are loop times in seconds."""

    def __init__(self, log: Callable[[int, str], None], now_s: float, *, unproven_s: float) -> None:
        """``unproven_s``: how long the directory must be unproven before that is logged."""
        self._log = log
        self._unproven_s = unproven_s
        self._lines = TokenBucket(LINES_PER_S, BURST_MAX, now_s)
        self._left_out = 0
        self._told_s: dict[str, float] = {}
        self._unproven: tuple[str, int] | None = None
        """The newest line that waits by rule 3, and its level."""
        self._unproven_since_s: float | None = None

    def report(self, report: Report, now_s: float) -> None:
        """Log this line, now or later, or leave it out."""
        text, level = report.text, logging.ERROR if report.is_alarm else logging.INFO
        if report.kind is ReportKind.LEADERLESS:
            level = logging.WARNING
        # Rule 3: `log_due` logs it.
        if report.kind is ReportKind.UNPROVEN:
            self._unproven = text, level
            if self._unproven_since_s is None:
                self._unproven_since_s = now_s
        elif report.is_alarm:
            self._log(level, text)
        elif report.kind in OF_CONNECTIONS:
            self._report_connection(text, now_s)
        else:
            # Rule 2.
            self._log(logging.DEBUG if self._is_repeated(text, now_s) else level, text)

    def log_due(self, now_s: float, *, is_proven: bool) -> None:
        """Log what has waited for long enough; call it a few times a second."""
        if is_proven:
            self._unproven = self._unproven_since_s = None
        elif self._unproven is not None and self._unproven_since_s is not None:
            (text, level), waited_s = self._unproven, now_s - self._unproven_since_s
            if waited_s >= self._unproven_s:
                self._unproven = None
                self._log(level, text)

    def _report_connection(self, text: str, now_s: float) -> None:
        # Rule 1: only peers can cause lines about connections at any rate.
        if not self._lines.take(now_s):
            self._left_out += 1
            return
        left_out, self._left_out = self._left_out, 0
        if left_out:
            text += f" (left out before this: {counted(left_out, 'line')} about connections)"
        self._log(logging.INFO, text)

    def _is_repeated(self, text: str, now_s: float) -> bool:
        """Whether the same line came a short time ago; remembers it."""
        before_s = self._told_s.pop(text, None)
        self._told_s[text] = now_s
        if len(self._told_s) > REMEMBERED_MAX:
            self._told_s.pop(next(iter(self._told_s)))
        return before_s is not None and now_s - before_s < REPEATED_S


T = TypeVar("T")
LAG_PERIOD_S: Final = 0.1
SHUTDOWN_TIMEOUT_MS: Final = 5_000
PROMETHEUS_LISTENER: Final = "pykraft.prometheus.listener"
LANE_STOP_TIMEOUT_S: Final = 5.0
TURNS_OF_ACCEPT: Final = 5
"""Turns of the loop from an accepted socket to the end of its aborted transport."""

OF_A_SOCKET: Final = frozenset({"socket", "transport", "protocol"})
OF_A_CALLBACK: Final = frozenset({"handle", "task", "future"})
"""Context keys of an exception that nobody caught: they tell where it was raised."""
ERRORS_OF_ACCEPT: Final = frozenset(
    {
        errno.ECONNABORTED,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.ENONET,
        errno.ENOPROTOOPT,
        errno.EOPNOTSUPP,
        errno.EPERM,
        errno.EPROTO,
    }
)
"""Errors of Linux's accept(2) for a connection that is gone already; for some, asyncio's context has no socket."""

logger = logging.getLogger("pykraft")


class Driver:
    """Runs a host until it ends; see `run`. Implements `Ports` and `LinksUser`."""

    def __init__(
        self,
        config: NodeConfig,
        loop: asyncio.AbstractEventLoop,
        *,
        fs: Fs | None = None,
        accepted_max: int | None = None,
        sockets: Mapping[str, Sequence[socket.socket]] | None = None,
        is_guest: bool = False,
        more: Callable[[], Mapping[Metric, float]] = dict,
        others: Sequence[FromFiles] = (),
    ) -> None:
        """Open the log directory and recover; the node does not listen yet.

        ``sockets`` are sockets that already listen for the listeners with these names; the driver owns them from now
        on. A guest does not change the loop's exception handler, because the loop is the application's.
        ``accepted_max`` clients may connect (None: `pykraft.server.run.ACCEPTED_MAX`), or fewer if the process
        has few descriptors. ``more`` returns metrics of the program, which are scraped with the node's, and
        ``others`` are made from the program's files, which are taken up with the node's.

        Errors: ConfigError for certificates, and whatever `Host.open` raises: ConfigError, ForeignDirectoryError,
        CorruptionError, StorageError.
        """
        self._config = config
        self._loop = loop
        self._sockets = dict(sockets or {})
        self._is_guest = is_guest
        self._ended: asyncio.Future[BaseException | None] = loop.create_future()
        self._is_shutting_down = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._wake_ms: int | None = None
        """When the host wants to be called (mono ms)."""
        self._reports = Reports(logger.log, loop.time(), unproven_s=config.raft.fetch_timeout_ms / 1_000)
        self._tls = NodeTls(config, others)
        self.host = Host.open(fs or OsFs(), self, config, rng=Random(), authorizer=self._tls.authorizer)
        self._ordered = OrderedThread(loop, self.host.lane, done=self._durable, failed=self.fail)
        self._bulk = BulkThread(loop, failed=self.fail)
        self._checks = CheckThread(loop, failed=self.fail)
        self._links = Links(loop, self, LinkLimits.of(config, accepted_max), tls=self._tls)
        self._loop_watch = LoopWatch()
        self._prometheus: PrometheusEndpoint | None = None
        self._reload_socket: ReloadSocket | None = None
        self._more = more

    async def run(self, *, begin: Callable[[], None] = lambda: None) -> None:
        """Listen, call ``begin``, take the first step, and serve until the host ends; then close everything.

        Queued storage jobs are finished first, unless the disk takes too long.

        Errors: ConfigError for an address that cannot be bound; the error that ended the node, unless it was shut down.
        """
        try:
            await self._serve(begin)
        except BaseException:
            with suppress(Exception):  # a second failure must not hide the first
                await self._close()
            raise
        await self._close()

    @property
    def has_ended(self) -> bool:
        """True once the driver no longer calls the host."""
        return self._ended.done()

    def metrics(self) -> Metrics:
        """The current values of `pykraft.server.prometheus.METRICS`; call it on the loop.

        Empty before the node's first step and after it has ended. Each call begins a new interval of the idle ratio.
        """
        told = {} if self._ended.done() else self.host.metrics(now())
        if not told:
            return {}
        violations = int(told["closed-for-violation-total"]) + self._links.violations
        return {
            **told,
            **self._loop_watch.read(self._loop.time() * 1_000),
            "closed-for-violation-total": violations,
            "accepted-connections": self._links.accepted_count,
            "dialed-connections": self._links.dialed_count,
            **self._tls.metrics(self._links.failed_handshakes),
        }

    def reload(self) -> asyncio.Future[list[FileReport]]:
        """Take up changed files now instead of within seconds; the result says what became of each."""
        return self._tls.refresh_soon(self._loop)

    @property
    def not_taken_up(self) -> list[FileReport]:
        """Changed files that cannot be used, so that the former ones stay; from any thread."""
        return self._tls.not_taken_up

    def shut_down(self, timeout_ms: int = SHUTDOWN_TIMEOUT_MS) -> None:
        """Shut down gracefully within this time; a second call stops the node at once."""
        if self._is_shutting_down:
            self.stop(None)
            return
        self._is_shutting_down = True
        self._guarded(self.host.shutdown, timeout_ms, now())

    def fail(self, error: BaseException) -> None:
        if not self._ended.done():
            self._ended.set_result(error)

    def link_accepted(self, connection: ConnectionId, listener: str, end: RemoteEnd) -> None:
        self._guarded(self.host.on_accepted, connection, listener, now(), end)

    def answer_api_versions(self, listener: str, frame: Buffer) -> list[Buffer]:
        return self.host.answer_api_versions(listener, frame)

    def link_connected(self, connection: ConnectionId, end: RemoteEnd) -> None:
        self._guarded(self.host.on_connected, connection, now(), end)

    def link_closed(self, connection: ConnectionId, *, is_refused: bool = False, reason: str = "") -> None:
        self._guarded(partial(self.host.on_closed, connection, now(), is_refused=is_refused, reason=reason))

    def link_received(self, connection: ConnectionId, frame: Buffer) -> None:
        self._guarded(self.host.on_frame, connection, frame, now())

    def dial(self, endpoint: Endpoint) -> ConnectionId:
        return self._links.dial(endpoint)

    def send(self, connection: ConnectionId, parts: Sequence[Buffer]) -> None:
        self._links.send(connection, parts)

    def received_size_bytes(self, connection: ConnectionId) -> tuple[int, int]:
        return self._links.received_size_bytes(connection)

    def unsent_size_bytes(self, connection: ConnectionId) -> int:
        return self._links.unsent_size_bytes(connection)

    def close(self, connection: ConnectionId) -> None:
        self._links.close(connection)

    def submit(self, job: Job) -> None:
        self._ordered.submit(job)

    def submit_read(self, read: Callable[[], T], then: Callable[[T], None]) -> None:
        self._bulk.submit(read, lambda result: self._guarded(then, result))

    def submit_check(self, check: CheckInSteps) -> None:
        then = check.then
        check.then = lambda result: self._guarded(then, result)
        self._checks.submit(check)

    def wake_at(self, mono_ms: int | None) -> None:
        self._wake_ms = mono_ms
        # Each step moves the time, mostly to later: the timer stays, and `_tick` sets it again.
        if mono_ms is None or (self._timer is not None and self._timer_ms <= mono_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._set_timer(mono_ms)

    def report(self, report: Report) -> None:
        self._reports.report(report, self._loop.time())

    def report_connection(self, text: str) -> None:
        self.report(Report(text=text, kind=ReportKind.CONNECTION))

    def stop(self, error: Exception | None) -> None:
        if not self._ended.done():
            self._ended.set_result(error)

    async def _serve(self, begin: Callable[[], None]) -> None:
        if not self._is_guest:
            self._loop.set_exception_handler(self._on_loop_exception)
        await self._listen()
        self._watch_lag(self._loop.time())
        self._guarded(begin)
        self._guarded(self.host.start, now())
        error = await self._ended
        if error is not None:
            raise error

    async def _listen(self) -> None:
        warn_of_plaintext(self._config, self._tls.authorizer)
        warn_of_host(self._config)
        for name, endpoint in self._config.listeners:
            try:
                await self._links.listen(name, self._sockets.get(name) or listening_sockets(endpoint))
            except OSError as error:
                raise not_bound("listeners", f"{name}://{endpoint}", error) from error
        if self._tls.has_files:
            self._reload_socket = ReloadSocket(self._loop, self._config.log_dir, self._config.node_id, self.reload)
        if self._config.prometheus_listener is not None:
            await self._listen_to_prometheus(self._config.prometheus_listener)

    async def _listen_to_prometheus(self, endpoint: Endpoint) -> None:
        require_package(f"property {PROMETHEUS_LISTENER}:")
        self._prometheus = PrometheusEndpoint(self._loop, lambda: render(self.metrics(), self._more()))
        try:
            sockets = listening_sockets(endpoint)
        except OSError as error:
            raise not_bound(PROMETHEUS_LISTENER, str(endpoint), error) from error
        told = Endpoint(endpoint.host or "localhost", port_of(sockets))
        tls = self._tls.for_listener(METRICS_NAME)

        def failed(text: str) -> None:
            self.report_connection(f"a TLS handshake for metrics failed, with {text}")

        await self._prometheus.listen(sockets, tls, failed=failed, addresses=self._tls.addresses)
        self.report(Report(text=f"metrics are at {'http' if tls is None else 'https'}://{told}/metrics"))

    async def _close(self) -> None:
        """Answer waiting callers, close sockets, then files; the loop keeps running meanwhile. Errors: StorageError."""
        self.stop(None)
        self.host.end()
        self._ordered.leave_to_thread()
        self._links.close_all()
        if self._prometheus is not None:
            self._prometheus.close()
        if self._reload_socket is not None:
            self._reload_socket.close()
        if self._timer is not None:
            self._timer.cancel()
        closed: asyncio.Future[BaseException | None] = self._loop.create_future()
        # The lanes may wait for the disk, and the loop must not.
        threading.Thread(target=self._close_files, args=(closed,), name="pykraft-closing", daemon=True).start()
        done, _ = await asyncio.wait([closed], timeout=LANE_STOP_TIMEOUT_S)
        # The servers have closed theirs by now; these are of listeners that never served.
        for listening in chain(*self._sockets.values()):
            listening.close()
        if not done:
            logger.error("the disk did not finish in %.0f s; the next start recovers", LANE_STOP_TIMEOUT_S)
        elif (error := closed.result()) is not None:
            raise error
        # A connection that was being accepted is aborted in the next turns, which may be the last ones of the loop.
        for _ in range(TURNS_OF_ACCEPT):
            await asyncio.sleep(0)

    def _close_files(self, closed: asyncio.Future[BaseException | None]) -> None:
        """Stop the lanes, then close the files.

        This runs on a thread of its own, because each step may wait for the disk. If the loop has given up waiting and
        the disk recovers later, this still closes the files and releases the lock.
        """
        error: BaseException | None = None
        try:
            self._checks.stop()
            self._bulk.stop()
            self._ordered.stop()
            self.host.close()
        except BaseException as raised:  # noqa: BLE001 - `_close` raises it again
            error = raised
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(closed.set_result, error)

    def _set_timer(self, mono_ms: int) -> None:
        self._timer_ms = mono_ms
        delay_ms = max(0, mono_ms - now().mono_ms)
        self._timer = self._loop.call_later(delay_ms / 1_000, self._tick)

    def _tick(self) -> None:
        self._timer = None
        at = now()
        if self._wake_ms is not None and self._wake_ms > at.mono_ms:
            # The host has asked for a later time since: a step now would find nothing due.
            self._set_timer(self._wake_ms)
        else:
            self._guarded(self.host.on_tick, at)

    def _durable(self, io: Io) -> None:
        self._guarded(self.host.on_io, io, now())

    def _guarded(self, act: Callable[..., object], *arguments: object) -> None:
        """Call into the host; any exception ends the node."""
        if self._ended.done():
            return
        try:
            act(*arguments)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the node ends with it
            self.fail(error)

    def _on_loop_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """Decide whose fault an exception is that asyncio found no owner for.

        A network error is a peer's fault; any other exception is ours, and ends the node.
        """
        del loop
        error = context.get("exception")
        # An OSError of our own callback or task has no socket in its context: the disk for our output is full, say. The
        # callback, such as the workload's, has stopped silently, so the node must not continue.
        is_ours = not context.keys() & OF_A_SOCKET and bool(context.keys() & OF_A_CALLBACK)
        if isinstance(error, OSError) and (not is_ours or error.errno in ERRORS_OF_ACCEPT):
            self.report_connection(f"a connection failed: {context.get('message')}: {error}")
        else:
            self.fail(error if isinstance(error, BaseException) else RuntimeError(str(context.get("message"))))

    def _watch_lag(self, expected_s: float) -> None:
        """Measure the loop's lag, and warn when the loop was blocked long enough to come near the fetch timeout."""
        now_s = self._loop.time()
        lag_ms = (now_s - expected_s) * 1_000
        self._loop_watch.ticked(lag_ms, now_s * 1_000, thread_time() * 1_000)
        # A follower starts an election after the fetch timeout, so warn well before that.
        if lag_ms > self._config.raft.fetch_timeout_ms / 4:
            logger.warning("the event loop was blocked for %.0f ms; elections start at the fetch timeout", lag_ms)
        self._guarded(self.host.explain, now())
        self._tls.refresh_if_due(self._loop)
        self._reports.log_due(now_s, is_proven=self.host.status.is_proven)
        if not self._ended.done():
            self._loop.call_at(now_s + LAG_PERIOD_S, self._watch_lag, now_s + LAG_PERIOD_S)

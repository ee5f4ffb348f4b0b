"""The life of an embedded node, from bound sockets to its end, and the calls that wait for an answer meanwhile.

Invariant: each call gets exactly one answer, from the host or from the end of the node; a life runs once. Everything is
called on the application's loop, but for the methods of `Engine`: it runs the node's driver, on the node's loop, and
any thread may read its properties. An error of the application goes back to the application; any other exception in a
call ends the node.

A node runs on the application's own loop, or on a loop in its own thread (`NodeLoops`): calls arrive in the order in
which they were made, in each direction, and run on the loop that they were sent to; calls after that loop's end are
dropped. Their number has no limit here: each caller waits for its own answer, and each listener for one delivery.
Within `until_signal` the first signal cancels the block's task, and the block swallows that cancellation; after it,
signals do what they did before.

Source: Kafka's ``KafkaRaftManager``, ``KafkaRaftClientDriver`` and ``RaftMessageQueue``; ``asyncio.timeout``, which
ends a block as well; Kafka's ``KafkaRaftClient.initialize``, ``shutdown`` and ``close``.
"""

import asyncio
import logging
import socket
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from pykraft.client.configure import voter_set, with_ports, with_voters
from pykraft.config import NodeConfig
from pykraft.core.status import Status
from pykraft.errors import ConfigError, NotRunningError, OutcomeUnknownError, PykraftError, UsageError
from pykraft.host.host import Host
from pykraft.host.metrics import Metric, Metrics
from pykraft.process.signals import ending_signals, handlers_restored
from pykraft.security.files import FileReport, FromFiles
from pykraft.server.binding import listening_sockets, not_bound, port_of
from pykraft.server.driver import Driver
from pykraft.server.run import loop_factory
from pykraft.types import VoterSet


@asynccontextmanager
async def until_signal() -> AsyncIterator[None]:
    """Within this block SIGTERM, SIGINT (Ctrl-C) or SIGHUP ends the block, and the program continues after it.

    Signals that the program was started to ignore stay ignored. A second signal, while nodes shut down, does what it
    did before the block: usually it ends the program at once.

    Errors: UsageError outside of the main thread, which alone can handle signals.
    """
    if threading.current_thread() is not threading.main_thread():
        raise UsageError("until_signal() works only in the main thread of the program")
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "a block runs in a task"
    cancelling = task.cancelling()
    has_come = False
    handling = ExitStack()
    handling.enter_context(handlers_restored(ending_signals()))

    def end() -> None:
        nonlocal has_come
        has_come = True
        handling.close()
        task.cancel("the program got a signal")

    for number in ending_signals():
        loop.add_signal_handler(number, end)
        handling.callback(loop.remove_signal_handler, number)
    try:
        yield
        if has_come:
            await asyncio.sleep(0)  # the block ended before it was cancelled; take the cancellation here
    except asyncio.CancelledError:
        # Another cancellation than ours goes on.
        if not has_come or task.cancelling() > cancelling + 1:
            raise
    finally:
        handling.close()
        if has_come:
            task.uncancel()


LoopCall: TypeAlias = Callable[..., object]
NodeMain: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
JOIN_TIMEOUT_S: Final = 1.0
"""How long a thread that has sent its last call may take to end."""


class NodeLoops:
    """The application's loop, which is the node's, too; `OwnThread` has two."""

    def to_node(self, act: LoopCall, *arguments: object) -> None:
        """Call this on the node's loop; if the caller is on it already, at once."""
        act(*arguments)

    def to_application(self, act: LoopCall, *arguments: object) -> None:
        """Call this on the application's loop; if both are the same loop, at once."""
        act(*arguments)

    async def run(self, main: NodeMain, stop: Callable[[], None]) -> None:
        """Run the node's ``main`` on its loop until it returns; if this is cancelled, ``stop`` ends it.

        Errors: any exception of ``main``.
        """
        del stop  # a node on this loop is cancelled with it
        await main()


class OwnThread(NodeLoops):
    """The node has its own loop in its own thread, so that a blocked application does not cost it its leadership."""

    def __init__(self) -> None:
        self._to_node: _Way | None = None
        self._to_application: _Way | None = None
        self._is_cancelled = False

    def to_node(self, act: LoopCall, *arguments: object) -> None:
        """See `NodeLoops`; dropped before `run`."""
        if self._to_node is not None:
            self._to_node.send(act, arguments)

    def to_application(self, act: LoopCall, *arguments: object) -> None:
        if self._to_application is not None:
            self._to_application.send(act, arguments)

    async def run(self, main: NodeMain, stop: Callable[[], None]) -> None:
        loop = asyncio.get_running_loop()
        self._to_application = _Way(loop)
        ended: asyncio.Future[BaseException | None] = loop.create_future()

        def body() -> None:
            error: BaseException | None = None
            try:
                with asyncio.Runner(loop_factory=loop_factory("auto")) as runner:
                    self._to_node = _Way(runner.get_loop())
                    if not self._is_cancelled:
                        runner.run(main())
            except BaseException as raised:  # noqa: BLE001 - raised again in `run`
                error = raised
            self.to_application(_end_with, ended, error)

        thread = threading.Thread(target=body, name="pykraft-node", daemon=True)
        thread.start()
        try:
            await asyncio.wait([ended])
        except asyncio.CancelledError:
            # Set the flag, then use the queue; the thread creates its queue, then reads the flag. One sees the other.
            self._is_cancelled = True
            self.to_node(stop)
            await asyncio.wait([ended])
            raise
        finally:
            thread.join(JOIN_TIMEOUT_S)
        if (error := ended.result()) is not None:
            raise error


class _Way:
    """Queues calls to a loop from another thread; one wake-up takes all waiting calls."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[LoopCall, tuple[object, ...]]] = deque()
        self._is_due = False

    def send(self, act: LoopCall, arguments: tuple[object, ...]) -> None:
        """Queue a call and wake the loop."""
        # Queue first, then check the flag: if the loop clears it in between, it also sees this call.
        self._waiting.append((act, arguments))
        if not self._is_due:
            self._is_due = True
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._carry_out)

    def _carry_out(self) -> None:
        """Run the calls that wait now; later ones run in the next turn of the loop."""
        self._is_due = False
        for _ in range(len(self._waiting)):
            act, arguments = self._waiting.popleft()
            act(*arguments)
        if self._waiting and not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._carry_out)


def _end_with(ended: asyncio.Future[BaseException | None], error: BaseException | None) -> None:
    if not ended.done():
        ended.set_result(error)


class Engine:
    """Runs one driver, once."""

    def __init__(self) -> None:
        self._driver: Driver | None = None
        self._is_stopped = False
        self.published: Mapping[Metric, float] = {}
        """Metrics of the program, for a scrape."""
        self.from_files: list[FromFiles] = []
        """What the program has made from files, which are taken up with the node's when they change."""

    async def run(
        self,
        config: NodeConfig,
        *,
        sockets: Mapping[str, Sequence[socket.socket]],
        is_guest: bool,
        begin: Callable[[Host], None],
        begun: Callable[[], None],
    ) -> None:
        """Open, recover, call ``begin``, take the first step, call ``begun``, and serve until the end.

        Errors: see `pykraft.server.driver.Driver`.
        """
        loop = asyncio.get_running_loop()
        if self._is_stopped:
            return
        self._driver = driver = Driver(
            config, loop, sockets=sockets, is_guest=is_guest, more=lambda: self.published, others=self.from_files
        )

        def on_begin() -> None:
            begin(driver.host)
            loop.call_soon(begun)

        await driver.run(begin=on_begin)

    def call(self, act: Callable[[Host], object], refused: Callable[[PykraftError], object]) -> None:
        """Call the host; ``refused`` gets the error if the caller made one."""
        if self._driver is None or self._driver.has_ended:
            refused(NotRunningError("the node has ended"))
            return
        try:
            act(self._driver.host)
        except UsageError as error:
            refused(error)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the node ends with it
            self._driver.fail(error)

    def metrics(self, answer: Callable[[Metrics], object]) -> None:
        """Pass the current metrics to ``answer``."""
        answer({} if self._driver is None else self._driver.metrics())

    @property
    def not_taken_up(self) -> list[FileReport]:
        """Changed files that cannot be used, from any thread."""
        return [] if self._driver is None else self._driver.not_taken_up

    def leave(self, timeout_ms: int) -> None:
        """Begin a graceful shutdown."""
        if self._driver is not None:
            self._driver.shut_down(timeout_ms)

    def stop(self) -> None:
        """End the node now."""
        self._is_stopped = True
        if self._driver is not None:
            self._driver.stop(None)

    def fail(self, error: BaseException) -> None:
        """End the node with this error; the first one counts."""
        if self._driver is not None:
            self._driver.fail(error)

    @property
    def host(self) -> Host | None:
        """The host; None before `run` has opened it."""
        return None if self._driver is None else self._driver.host

    @property
    def status(self) -> Status | None:
        """The host's status, from any thread; None before `run` has opened it."""
        return None if self._driver is None else self._driver.host.status


R = TypeVar("R")
OnAnswer: TypeAlias = Callable[[R | BaseException], None]
"""Answers a waiting call, from the node's loop; an exception is raised there. Only the first answer counts."""

logger = logging.getLogger("pykraft")


class HostAccess(Protocol):
    """Passes calls on to the host: a `Life`, or the node that owns it."""

    async def ask(self, act: Callable[[Host, OnAnswer[R]], object], *, doubt: str | None = None) -> R: ...


class Life:
    """The life of one node: `begin` starts it, its ``over`` callback reports the end."""

    def __init__(self, config: NodeConfig, loops: NodeLoops, *, is_guest: bool) -> None:
        self.config = config
        self.engine = Engine()
        self._has_sockets = True
        self.loops = loops
        self.failure: BaseException | None = None
        """The error that ended the node; None if the application stopped it."""
        self.is_begun = False
        self.is_over = False
        self._is_stopped = False
        self._is_guest = is_guest
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sockets: dict[str, list[socket.socket]] = {}
        self._task: asyncio.Task[None] | None = None
        self.before_calls: Callable[[], None] = lambda: None
        """Passes on the proposals that still gather; `ask` calls it first, so that calls reach the host in order."""
        self.waiting: dict[object, Callable[[], None]] = {}
        """Waiting calls, and what tells each of them that the node has ended."""

    def run_by(self, engine: Engine) -> None:
        """Before `bind`: this engine runs the node, and has a network of its own."""
        self.engine, self._has_sockets = engine, False

    def bind(self) -> None:
        """Listen on all listeners that have no socket yet; connections wait until `begin`.

        Errors: ConfigError for an address that cannot be bound; NotRunningError after the end.
        """
        if self.is_over:
            raise NotRunningError("the node has ended: make a new Node")
        if self._task is not None or self._sockets or not self._has_sockets:
            return
        for name, endpoint in self.config.listeners:
            try:
                self._sockets[name] = listening_sockets(endpoint)
            except OSError as error:
                self._unbind()
                raise not_bound("listeners", f"{name}://{endpoint}", error) from error
        self.config = with_ports(self.config, {name: port_of(sockets) for name, sockets in self._sockets.items()})

    async def begin(
        self, voters: VoterSet | Mapping[int, str] | None, *, attach: Callable[[Host], None], over: Callable[[], None]
    ) -> None:
        """Open, recover, ``attach`` and serve; ``over`` is called at the end, if this call succeeded.

        Errors: UsageError the second time; ConfigError; errors of opening the directory.
        """
        if self._task is not None:
            raise UsageError("a node is initialized once: make a new Node to start again")
        self.bind()
        try:
            if voters is not None and not isinstance(voters, VoterSet):
                voters = voter_set(voters, self.config.default_listener)
            self.config = with_voters(self.config, voters)
        except ConfigError:
            self._unbind()
            raise
        self._loop = loop = asyncio.get_running_loop()
        begun: asyncio.Future[None] = loop.create_future()
        self._task = loop.create_task(self._live(attach, partial(_settle, begun)), name="pykraft node")
        try:
            await asyncio.wait([self._task, begun], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._task.cancel()
            raise
        if self.failure is not None:
            raise self.failure
        if self._is_stopped or self._task.done():
            raise NotRunningError("the node was closed while it was being initialized")
        self.is_begun = True
        self._task.add_done_callback(lambda _: over())

    async def ask(self, act: Callable[[Host, OnAnswer[R]], object], *, doubt: str | None = None) -> R:
        """Call the host on its loop, and wait until ``act`` answers. Cancelling the wait does not cancel the call.

        ``doubt`` is for a call that may take effect although the node ended before it answered: it describes that
        effect.

        Errors: the exception that it answers; UsageError from the host; NotRunningError; with ``doubt``
        OutcomeUnknownError, if the host got the call and the node ended before it answered.
        """
        loop = self.require_loop()
        self.before_calls()
        future: asyncio.Future[R] = loop.create_future()
        to_application = self.loops.to_application
        is_begun = False

        def call(host: Host) -> None:
            nonlocal is_begun
            is_begun = True
            act(host, answer)

        def answer(result: R | BaseException) -> None:
            to_application(_settle, future, result)

        # Only a call that reached the host can be in doubt; any other certainly had no effect.
        self.waiting[future] = lambda: _settle(
            future, self.in_doubt(doubt) if is_begun and doubt is not None else self.ended_error()
        )
        self.loops.to_node(self.engine.call, call, answer)
        try:
            return await future
        finally:
            del self.waiting[future]

    def require_running(self) -> None:
        """Check that the node runs. Errors: NotRunningError before it is initialized, and after its end."""
        if self.is_over:
            raise self.ended_error()
        if not self.is_begun:
            raise NotRunningError("the node is not initialized yet: `async with node:` or `await node.initialize()`")

    def require_loop(self) -> asyncio.AbstractEventLoop:
        """The application's loop, if this is a call on it of a node that runs. Errors: NotRunningError; UsageError."""
        self.require_running()
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            raise UsageError("call a node on the loop that initialized it; asyncio.run_coroutine_threadsafe goes there")
        return loop

    async def ended(self) -> NotRunningError:
        """Wait until the node has ended; returns the error for a call that came too late."""
        await self.wait_over()
        return self.ended_error()

    async def wait_over(self) -> None:
        """Wait until the node has ended, for any reason."""
        if self._task is not None:
            await asyncio.wait([self._task])

    def stop(self) -> None:
        """End the node now; before `begin`, release the ports."""
        self._is_stopped = True
        if self._task is None:
            self.is_over = True
            self._unbind()
        elif self.is_begun:
            self.loops.to_node(self.engine.stop)
        else:
            self._task.cancel()

    async def _live(self, attach: Callable[[Host], None], begun: Callable[[object], None]) -> None:
        sockets = dict(self._sockets)
        try:
            await self.loops.run(
                lambda: self.engine.run(
                    self.config,
                    sockets=sockets,
                    is_guest=self._is_guest,
                    begin=attach,
                    begun=lambda: self.loops.to_application(begun, None),
                ),
                self.engine.stop,
            )
        except Exception as error:
            self.failure = error
            if self.is_begun:
                logger.error("the node has ended: %s", error, exc_info=error)  # noqa: TRY400 - not where it was raised
        finally:
            self._unbind()
            self.is_over = True
            # Whatever ended the node, each waiting call gets its one answer.
            for wake in list(self.waiting.values()):
                wake()

    def ended_error(self) -> NotRunningError:
        """The error for a call after the end."""
        ended = NotRunningError("the node has ended" if self.failure is None else f"the node failed: {self.failure}")
        ended.__cause__ = self.failure
        return ended

    def in_doubt(self, doubt: str) -> OutcomeUnknownError:
        """The error for a call that reached the host but got no answer."""
        unknown = OutcomeUnknownError(f"the node ended before it answered: {doubt}")
        unknown.__cause__ = self.failure
        return unknown

    def _unbind(self) -> None:
        for sockets in self._sockets.values():
            for each in sockets:
                each.close()
        self._sockets.clear()


def _settle(future: asyncio.Future[Any], result: object) -> None:
    """Answer, unless the call is answered already or cancelled."""
    if future.done():
        return
    if isinstance(result, BaseException):
        future.set_exception(result)
    else:
        future.set_result(result)

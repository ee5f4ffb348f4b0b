"""Where a node runs: on the application's own loop, or on a loop in its own thread; and how a signal ends it.

Invariants: calls arrive in the order in which they were made, in each direction, and run on the loop that they were
sent to; calls after that loop's end are dropped. Their number has no limit here: each caller waits for its own answer,
and each listener for one delivery. Within `until_signal` the first signal cancels the block's task, and the block
swallows that cancellation; after it, signals do what they did before.

Source: Kafka's ``KafkaRaftClientDriver`` and ``RaftMessageQueue``; ``asyncio.timeout``, which ends a block as well.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Any, Final, TypeAlias

from pykraft.errors import UsageError
from pykraft.process.signals import ending_signals, handlers_restored
from pykraft.server.run import loop_factory


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
            self.to_application(_settle, ended, error)

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


def _settle(ended: asyncio.Future[BaseException | None], error: BaseException | None) -> None:
    if not ended.done():
        ended.set_result(error)

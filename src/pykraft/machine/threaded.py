"""A replicated state machine for programs without a loop: Flask, Django, scripts.

The node and the state machine live on a loop in a thread of their own, and each call waits for its answer. Any number
of threads may call at one time. Invariant: no call waits for a thread that has ended, or that is not in this process.

Source: ours (ADR 088).
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from pykraft.config import NodeConfig
from pykraft.errors import NotRunningError, OutcomeUnknownError, UsageError
from pykraft.machine.replicated import TIMEOUT_MS, M_co, Replicated
from pykraft.machine.state_machine import StateMachine

C = TypeVar("C")
R = TypeVar("R")
T = TypeVar("T")


class ThreadedReplicated(Generic[M_co]):
    """A `StateMachine` on this node, for threads: see `Replicated.in_thread`. Use it in ``with``, or `start` it."""

    def __init__(
        self, config: NodeConfig, machine: M_co, *, check_every: int | None = None, skip_offsets: Collection[int] = ()
    ) -> None:
        """Open nothing yet. Errors: UsageError for an invalid configuration or machine."""
        self._replicated = Replicated(config, machine, check_every=check_every, skip_offsets=skip_offsets)
        self._thread = threading.Thread(target=self._run, name="pykraft machine", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._started: Future[None] = Future()
        self._process_id: int | None = None
        self._lock = threading.Lock()
        self._calls: set[Future[Any]] = set()
        """Calls that wait; guarded by the lock, as is whether the loop has ended."""
        self._is_over = False
        self._failure: BaseException | None = None

    def start(self) -> Self:
        """Start the node, and return when it runs; it is closed when the program ends, if not before.

        Errors: UsageError the second time; those of `pykraft.client.Node.initialize`.
        """
        if self._process_id is not None:
            raise UsageError("this node was started before: a node starts once, so make a new one")
        self._process_id = os.getpid()
        self._thread.start()
        try:
            self._started.result()
        except BaseException:
            self._thread.join()
            raise
        atexit.register(self._at_exit)
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Shut the node down as the end of ``async with`` does, and wait for that.

        Errors: UsageError in another process, and within `read` or `call`; the error that ended a failed node.
        """
        if self._process_id is None:
            self._process_id = os.getpid()  # it can no longer be started
            return
        self._require_own_process()
        self._require_other_thread()
        atexit.unregister(self._at_exit)
        with self._lock:
            if not self._is_over and self._loop is not None:
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def execute(self: ThreadedReplicated[StateMachine[C, R]], command: C, *, timeout_ms: int = TIMEOUT_MS) -> R:
        """Apply this command on all replicas, once; returns its result.

        Errors: as `pykraft.machine.Replicated.execute`: UsageError, NotAppliedError, BufferFullError, NotRunningError:
        certainly not applied; CommandRejectedError: rejected by the state machine; OutcomeUnknownError: one or the
        other, also when the node was closed meanwhile.
        """
        return self.call(lambda replicated: replicated.execute(command, timeout_ms=timeout_ms))

    def read(
        self,
        look: Callable[[M_co], T],
        *,
        stale: bool = False,
        max_age_ms: int | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> T:
        """What ``look`` returns, given the state machine: ``node.read(lambda state: state.totals["x"])``.

        It runs in the node's thread, and the state does not change meanwhile; keep it short, and return nothing that
        changes on. Errors: as `pykraft.machine.Replicated.read`, and whatever ``look`` raises.
        """

        async def act(replicated: Replicated[M_co]) -> T:
            async with replicated.read(stale=stale, max_age_ms=max_age_ms, timeout_ms=timeout_ms) as state:
                return look(state)

        return self.call(act)

    def call(self, act: Callable[[Replicated[M_co]], Awaitable[T]]) -> T:
        """Run this with the node, in the node's thread, and wait for its result.

        ``node.call(lambda replicated: KeyValueStore(replicated).put("color", "red"))`` uses what needs a loop.

        Errors: UsageError in another process than the one that started the node, and in the node's own thread;
        NotRunningError before the start and after the end; OutcomeUnknownError when the node ended meanwhile; and
        whatever ``act`` raises.
        """
        if self._process_id is None:
            raise NotRunningError("the node is not started: use it in a with block, or start it")
        self._require_own_process()
        self._require_other_thread()
        answer: Future[T] = Future()
        with self._lock:
            if self._is_over or self._loop is None:
                raise NotRunningError("the node has ended") from self._failure
            self._calls.add(answer)
            self._loop.call_soon_threadsafe(self._begin, act, answer)
        try:
            return answer.result()
        except CancelledError:
            raise OutcomeUnknownError("the node was closed before there was an answer") from None
        finally:
            answer.cancel()  # the caller was interrupted: nobody waits any more
            with self._lock:
                self._calls.discard(answer)

    def _begin(self, act: Callable[[Replicated[M_co]], Awaitable[T]], answer: Future[T]) -> None:
        """On the node's loop: run a call."""

        async def run() -> None:
            try:
                result = await act(self._replicated)
            except Exception as error:  # noqa: BLE001 - the caller gets it
                with suppress(InvalidStateError):
                    answer.set_exception(error)
            else:
                with suppress(InvalidStateError):
                    answer.set_result(result)

        task = asyncio.get_running_loop().create_task(run(), name="pykraft call")
        loop = asyncio.get_running_loop()

        def interrupted(_: object) -> None:
            if answer.cancelled():
                with suppress(RuntimeError):  # the loop has ended, and with it the task
                    loop.call_soon_threadsafe(task.cancel)

        answer.add_done_callback(interrupted)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:  # noqa: BLE001 - the callers get it
            self._failure = error
        with self._lock:
            self._is_over = True
            calls = [*self._calls]
        for answer in calls:
            answer.cancel()
        if not self._started.done():
            self._started.set_exception(self._failure or NotRunningError("the node has ended"))

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with self._replicated:
            self._started.set_result(None)
            await self._stop.wait()

    def _require_own_process(self) -> None:
        if self._process_id != os.getpid():
            raise UsageError(
                f"the node was started in process {self._process_id}, and this process was forked from it: a node does "
                "not survive a fork, so start it in each process, after the fork, with a directory and an id of its own"
            )

    def _require_other_thread(self) -> None:
        if threading.current_thread() is self._thread:
            raise UsageError("this is the node's own thread, which a call would wait for: use the awaitable methods")

    def _at_exit(self) -> None:
        if self._process_id == os.getpid():
            with suppress(Exception):  # the program ends; its callers heard of the failure
                self.close()

"""The two storage lanes, each on its own thread: ordered jobs with group commit, and bulk reads.

This module owns the threads. Invariant: jobs run in the order in which they were submitted. A turn takes everything
that waits, so that one sync serves all of it, and results reach the loop in the same order. A disk that stalls blocks
only its own thread: not the loop, and not the end of the process, since the threads are daemons. The queue has no limit
of its own: the core bounds how many jobs wait.

Source: Kafka's ``KafkaRaftClient.flush`` (group commit); PostgreSQL's WAL writer.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Final, Protocol, TypeAlias, TypeVar

from pykraft.log.lane import Job
from pykraft.types import Io

T = TypeVar("T")
Failed: TypeAlias = Callable[[BaseException], None]
"""Called on the loop with the error that ended a lane."""

IDLE_S: Final = 0.2
"""After this long without work an ordered lane settles what can wait."""
LOOK_S: Final = 2.0
"""How often an ordered lane checks that its files still exist; a job that takes longer delays the check."""


class Lane(Protocol):
    """The lane that performs the jobs: `pykraft.log.lane.OrderedLane`."""

    def perform(self, jobs: Sequence[Job]) -> Io:
        """Run the jobs; all are durable when it returns the last one's io. Errors: StorageError."""
        ...

    def settle(self) -> None:
        """Make the recovery point durable while there is nothing else to do. Errors: StorageError."""
        ...

    def relieve(self) -> None:
        """Do what can be done after the jobs were reported: nobody waits for it. Errors: StorageError."""
        ...

    def look(self) -> None:
        """Check that nobody deleted or renamed the files. Errors: StorageError."""
        ...


class OrderedThread:
    """Runs a `Lane` on its own thread."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, lane: Lane, *, done: Callable[[Io], None], failed: Failed
    ) -> None:
        """``done`` is called on the loop with the io of the last durable job."""
        self._loop = loop
        self._lane = lane
        self._done = done
        self._failed = failed
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._looked_s = 0.0
        self._thread = threading.Thread(target=self._run, name="pykraft-ordered-lane", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Queue a job."""
        self._jobs.put(job)

    def stop(self, timeout_s: float | None = None) -> bool:
        """Finish the queued jobs, then end; False when the disk did not finish in time. Blocks."""
        self._jobs.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._looked_s = monotonic()
            while self._turn():
                self._look_if_due()
        except BaseException as error:  # noqa: BLE001 - the node stops with whatever it is
            _tell(self._loop, self._failed, error)

    def _turn(self) -> bool:
        """Wait for work and do all of it; False when no more will come."""
        jobs = self._waiting()
        goes_on = jobs[-1] is not None
        todo = [job for job in jobs if job is not None]
        if todo:
            # Group commit: one perform, and so one sync, for all jobs that waited.
            _tell(self._loop, self._done, self._lane.perform(todo))
            self._lane.relieve()
        return goes_on

    def _waiting(self) -> list[Job | None]:
        """All queued jobs, at least one; None marks the end."""
        try:
            jobs = [self._jobs.get(timeout=IDLE_S)]
        except Empty:
            self._lane.settle()
            jobs = [self._next()]
        while jobs[-1] is not None:
            try:
                jobs.append(self._jobs.get_nowait())
            except Empty:
                break
        return jobs

    def _next(self) -> Job | None:
        """Wait for the next job, however long that takes."""
        while True:
            try:
                return self._jobs.get(timeout=LOOK_S)
            except Empty:
                # An idle node writes nothing, so no failing write would tell it that its files are gone.
                self._look_if_due()

    def _look_if_due(self) -> None:
        if monotonic() - self._looked_s >= LOOK_S:
            self._lane.look()
            self._looked_s = monotonic()


class BulkThread:
    """Runs reads and other slow work, so that they do not delay a vote."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, failed: Failed) -> None:
        self._loop = loop
        self._failed = failed
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="pykraft-bulk-lane", daemon=True)
        self._thread.start()

    def submit(self, read: Callable[[], T], then: Callable[[T], None]) -> None:
        """Run ``read`` on the thread, then call ``then`` with its result on the loop."""
        self._tasks.put(lambda: _tell(self._loop, then, read()))

    def stop(self, timeout_s: float | None = None) -> bool:
        """Finish the current read and start no other; False when it did not end in time. Blocks."""
        # The thread checks this before it starts the next read.
        self._is_stopping = True
        self._tasks.put(None)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None and not self._is_stopping:
            try:
                task()
            except BaseException as error:  # noqa: BLE001 - the node stops with whatever it is
                _tell(self._loop, self._failed, error)


def _tell(loop: asyncio.AbstractEventLoop, act: Callable[[T], None], argument: T) -> None:
    """Call ``act`` on the loop."""
    # A RuntimeError means that the loop is closed: nobody waits any more.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(act, argument)

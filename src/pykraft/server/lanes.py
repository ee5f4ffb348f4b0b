"""The two lanes of storage, each a thread: ordered jobs with group commit, and bulk reads.

The ordered lane takes everything that waits in one turn, so that one sync serves all of it; a disk that
stalls holds up this thread and nothing else. What a lane did is told on the event loop.

Source: Kafka ``KafkaRaftClient.flush`` (group commit); PostgreSQL's WAL writer.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from pykraft.log.lane import Job, OrderedLane
from pykraft.types import Io

T = TypeVar("T")
IDLE_S = 0.2
"""An ordered lane without work for this long settles what can wait."""


class OrderedThread:
    """Runs `OrderedLane` off the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        lane: OrderedLane,
        *,
        done: Callable[[Io], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """``done`` and ``failed`` are called on the loop."""
        self._loop = loop
        self._lane = lane
        self._done = done
        self._failed = failed
        self._jobs: deque[Job] = deque()
        self._has_work = threading.Event()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="pykraft-ordered-lane", daemon=True)
        self._thread.start()

    def submit(self, job: Job) -> None:
        """Queue a job."""
        self._jobs.append(job)
        self._has_work.set()

    def stop(self, timeout_s: float) -> bool:
        """Do what is queued, then end; False when the disk did not finish in time."""
        self._is_stopping = True
        self._has_work.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while self._turn():
                pass
        except BaseException as error:  # noqa: BLE001 - the node stops with whatever it is
            self._tell(self._failed, error)

    def _turn(self) -> bool:
        """Wait for work and do all of it; False when there is none and none will come."""
        if not self._has_work.wait(IDLE_S):
            self._lane.settle()
            self._has_work.wait()
        self._has_work.clear()
        jobs = [self._jobs.popleft() for _ in range(len(self._jobs))]
        if jobs:
            self._tell(self._done, self._lane.perform(jobs))
        return bool(self._jobs) or not self._is_stopping

    def _tell(self, act: Callable[..., None], argument: object) -> None:
        """Call on the loop, unless it is closed: then nobody waits any more."""
        try:
            self._loop.call_soon_threadsafe(act, argument)
        except RuntimeError:
            self._is_stopping = True


class BulkThread:
    """Reads and whatever else may take long without holding up a vote."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, failed: Callable[[BaseException], None]) -> None:
        self._loop = loop
        self._failed = failed
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="pykraft-bulk-lane")

    def submit(self, read: Callable[[], T], then: Callable[[T], None]) -> None:
        """Run ``read``, then ``then`` with its result on the loop."""

        def work() -> None:
            try:
                result = read()
            except BaseException as error:  # noqa: BLE001 - the node stops with whatever it is
                self._tell(self._failed, error)
            else:
                self._tell(then, result)

        self._pool.submit(work)

    def stop(self) -> None:
        """Take no more work and do not wait for what runs."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _tell(self, act: Callable[..., None], argument: object) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(act, argument)

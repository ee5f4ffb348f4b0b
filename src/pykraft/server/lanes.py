"""The lanes of a node, each on its own thread: ordered jobs with group commit, bulk reads, and checks.

This module owns the threads. Invariant: jobs run in the order in which they were submitted. A turn takes everything
that waits, so that one sync serves all of it, and results reach the loop in the same order. A disk that stalls blocks
only its own thread: not the loop, and not the end of the process, since the threads are daemons. The queue has no limit
of its own: the core bounds how many jobs wait.

While the disk is quick and the loop has nothing else to do, a small group of appends is synced on the loop, at the end
of its turn. To wake a thread, to share the interpreter with it and to be woken by it costs several times as much as a
quick disk's sync. But the loop does nothing else meanwhile, and how long a sync takes is known only afterwards. So
`SyncPlace` (ADR 099) demands:

- the groups before, by whichever thread, must have been quick, QUICK_COUNT in a row;
- the loop must have nothing else to do: if the turn lasted long, the thread gets the next groups, too;
- slow groups on the loop may take SLOW_SHARE of the time. After a stall the thread gets all groups until the stall was
  that share of the time: after a second, for 50 seconds.

What is only written is written on the loop, however much else it has to do: to wake the thread takes longer.

Source: Kafka's ``KafkaRaftClient.flush`` (group commit); PostgreSQL's WAL writer.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import chain
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Final, Protocol, TypeAlias, TypeVar

from pykraft.host.ports import CheckInSteps
from pykraft.log.lane import AppendBytes, Job
from pykraft.types import Io

SLOW_S: Final = 0.002
"""A group that took longer was slow."""
QUICK_COUNT: Final = 8
"""Quick groups in a row before one is synced on the loop."""
BUSY_COUNT: Final = 64
"""The same for a loop that had other work."""
TURN_S_MAX: Final = 0.002
"""If a turn lasts longer than this after the group's first job, the loop has other work."""
SLOW_SHARE: Final = 0.02
"""Largest share of the time that slow groups on the loop may take."""
SLOW_S_MAX: Final = 0.01
"""Time that slow groups on the loop may take beyond that share."""
SIZE_BYTES_MAX: Final = 64 * 1024
"""Larger appends belong to the thread: they take longer than it takes to wake it."""


class SyncPlace:
    """What the last groups were like."""

    def __init__(self) -> None:
        self._needed = QUICK_COUNT
        """Quick groups in a row that are still missing."""
        self._begun_s = 0.0
        self._slow_s = 0.0
        """Time that slow groups on the loop have taken beyond their share, up to `_counted_s`."""
        self._counted_s = 0.0

    def may_be_loop(self, job: Job, now_s: float) -> bool:
        """Whether a group that begins with this job may be synced on the loop, at the end of this turn."""
        if self._needed > 0 or not isinstance(job, AppendBytes) or job.size_bytes > SIZE_BYTES_MAX:
            return False
        self._begun_s = now_s
        return self._beyond_share_s(now_s) <= SLOW_S_MAX

    def may_write(self, now_s: float) -> bool:
        """Whether a group that is only written may be written on the loop: not for a while after a stall."""
        self._begun_s = now_s
        return self._beyond_share_s(now_s) <= SLOW_S_MAX

    def is_loop(self, now_s: float) -> bool:
        """Whether it still may, at the end of the turn."""
        if now_s - self._begun_s <= TURN_S_MAX:
            return True
        self._needed = BUSY_COUNT
        return False

    def took(self, time_s: float) -> None:
        """A group took this long, on whichever thread."""
        if time_s <= SLOW_S:
            self._needed -= 1
        else:
            self._needed = max(self._needed, QUICK_COUNT)

    def took_on_loop(self, time_s: float, now_s: float) -> None:
        """A group took this long on the loop, and ended now."""
        self.took(time_s)
        if time_s > SLOW_S:
            self._slow_s = self._beyond_share_s(now_s) + time_s

    def _beyond_share_s(self, now_s: float) -> float:
        self._slow_s = max(0.0, self._slow_s - (now_s - self._counted_s) * SLOW_SHARE)
        self._counted_s = now_s
        return self._slow_s


T = TypeVar("T")
Failed: TypeAlias = Callable[[BaseException], None]
"""Called on the loop with the error that ended a lane."""

IDLE_S: Final = 0.2
"""After this long without work an ordered lane settles what can wait."""
RELIEVED_EVERY: Final = 8
"""After so many groups on the loop the lane is relieved there, too."""
LOOK_S: Final = 2.0
"""How often an ordered lane checks that its files still exist; a job that takes longer delays the check."""


class Lane(Protocol):
    """The lane that performs the jobs: `pykraft.log.lane.OrderedLane`."""

    def perform(self, jobs: Sequence[Job]) -> Io:
        """Run the jobs; all are durable when it returns the last one's io. Errors: StorageError."""
        ...

    def only_writes(self, job: Job) -> bool: ...

    def settle(self) -> None: ...

    def relieve(self) -> None:
        """Do what can be done after the jobs were reported: nobody waits for it. Errors: StorageError."""
        ...

    def check_files(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Finished:
    """Groups of jobs that are durable up to ``io``, which took the thread so many seconds."""

    io: Io
    groups: int
    took_s: float


class OrderedThread:
    """Runs a `Lane` on its own thread, and on the loop while that is quicker; never on both at a time."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, lane: Lane, *, done: Callable[[Io], None], failed: Failed
    ) -> None:
        """``done`` is called on the loop with the io of the last durable job."""
        self._loop = loop
        self._lane = lane
        self._done = done
        self._failed = failed
        self._place = SyncPlace()
        self._gathered: list[Job] = []
        """Jobs of this turn of the loop, to be done at its end."""
        self._only_writes = False
        """None of them waits for the disk."""
        self._groups_under_way = 0
        """Groups that the thread has and the loop has not heard of yet."""
        self._queue: SimpleQueue[list[Job] | None] = SimpleQueue()
        self._uses_lane = threading.Lock()
        self._is_left_to_thread = False
        self._loop_groups = 0
        """Groups that the loop has done."""
        self._is_resting = False
        """The thread has settled the lane and waits for work."""
        self._looked_s = 0.0
        self._worker = threading.Thread(target=self._run, name="pykraft-ordered-lane", daemon=True)
        self._worker.start()

    def submit(self, job: Job) -> None:
        if self._gathered:
            self._gathered.append(job)
            self._only_writes = self._only_writes and self._lane.only_writes(job)
        elif not (self._groups_under_way or self._is_left_to_thread) and self._may_be_loop(job, monotonic()):
            self._gathered.append(job)
            # At the end of the turn: what this step sends must have left before the loop waits for the disk.
            self._loop.call_soon(self._end_turn)
        else:
            self._put([job])

    def leave_to_thread(self) -> None:
        """The loop uses the lane no more; call this on the loop before `stop` elsewhere."""
        self._is_left_to_thread = True
        self._pass_on()

    def stop(self, timeout_s: float | None = None) -> bool:
        """Finish the queued jobs, then end; False when the disk did not finish in time. Blocks."""
        self._queue.put(None)
        self._worker.join(timeout_s)
        return not self._worker.is_alive()

    def _may_be_loop(self, job: Job, now_s: float) -> bool:
        self._only_writes = self._lane.only_writes(job)
        return self._place.may_write(now_s) if self._only_writes else self._place.may_be_loop(job, now_s)

    def _pass_on(self) -> None:
        gathered, self._gathered = self._gathered, []
        if gathered:
            self._put(gathered)

    def _put(self, group: list[Job]) -> None:
        self._groups_under_way += 1
        self._queue.put(group)

    def _end_turn(self) -> None:
        """Do what this turn has gathered, unless the thread is using the lane or the loop has other work."""
        begun_s = monotonic()
        is_loop = bool(self._gathered) and (self._only_writes or self._place.is_loop(begun_s))
        if not is_loop or not self._uses_lane.acquire(blocking=False):
            self._pass_on()
            return
        jobs, self._gathered = self._gathered, []
        io = self._on_loop(partial(self._lane.perform, jobs), begun_s)
        if io is None:
            return
        self._loop_groups += 1
        if self._is_resting:
            # The thread settles the lane when no more groups come.
            self._is_resting = False
            self._queue.put([])
        self._done(io)
        if self._loop_groups % RELIEVED_EVERY == 0:
            # In a turn of its own, since the jobs' messages leave at the end of this one.
            self._loop.call_soon(self._relieve)

    def _relieve(self) -> None:
        if self._is_left_to_thread or self._groups_under_way or not self._uses_lane.acquire(blocking=False):
            return  # the thread does it after its jobs
        self._on_loop(self._lane.relieve, monotonic())

    def _on_loop(self, work: Callable[[], T], begun_s: float) -> T | None:
        """Use the lane, which the loop holds, and give it back; None when the node ends with an error."""
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - the node stops with whatever it is
            self._failed(error)
            return None
        finally:
            self._uses_lane.release()
        ended_s = monotonic()
        self._place.took_on_loop(ended_s - begun_s, ended_s)
        return result

    def _finished(self, finished: _Finished) -> None:
        self._groups_under_way -= finished.groups
        self._place.took(finished.took_s)
        self._done(finished.io)

    def _run(self) -> None:
        try:
            self._looked_s = monotonic()
            while self._turn():
                self._check_if_due()
        except BaseException as error:  # noqa: BLE001 - the node stops with whatever it is
            _call_on(self._loop, self._failed, error)

    def _turn(self) -> bool:
        """Wait for work and do all of it; False when no more will come."""
        groups = self._waiting()
        goes_on = groups[-1] is not None
        todo = [group for group in groups if group]
        if todo:
            with self._uses_lane:
                begun_s = monotonic()
                # Group commit: one perform, and so one sync, for all jobs that waited.
                io = self._lane.perform(list(chain.from_iterable(todo)))
                _call_on(self._loop, self._finished, _Finished(io, len(todo), monotonic() - begun_s))
                self._lane.relieve()
        return goes_on

    def _waiting(self) -> list[list[Job] | None]:
        """All queued groups, at least one; None marks the end."""
        groups = [self._first()]
        while groups[-1] is not None:
            try:
                groups.append(self._queue.get_nowait())
            except Empty:
                break
        return groups

    def _first(self) -> list[Job] | None:
        """Wait for the next group, however long that takes; settle the lane when neither thread has work."""
        while True:
            before = self._loop_groups
            try:
                return self._queue.get(timeout=IDLE_S)
            except Empty:
                if self._loop_groups == before:
                    break
        # First: if the loop does a group while this settles the lane, it then wakes this thread.
        self._is_resting = True
        with self._uses_lane:
            self._lane.settle()
        while True:
            try:
                return self._queue.get(timeout=LOOK_S)
            except Empty:
                # An idle node writes nothing, so no failing write would tell it that its files are gone.
                self._check_if_due()

    def _check_if_due(self) -> None:
        if monotonic() - self._looked_s >= LOOK_S:
            with self._uses_lane:
                self._lane.check_files()
            self._looked_s = monotonic()


class BulkThread:
    """Runs reads and other slow work, so that they do not delay a vote."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, failed: Failed) -> None:
        self._loop = loop
        self._failed = failed
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._is_stopping = False
        self._worker = threading.Thread(target=self._run, name="pykraft-bulk-lane", daemon=True)
        self._worker.start()

    def submit(self, read: Callable[[], T], then: Callable[[T], None]) -> None:
        """Run ``read`` on the thread, then call ``then`` with its result on the loop."""
        self._tasks.put(lambda: _call_on(self._loop, then, read()))

    def stop(self, timeout_s: float | None = None) -> bool:
        """Finish the current read and start no other; False when it did not end in time. Blocks."""
        # The thread checks this before it starts the next read.
        self._is_stopping = True
        self._tasks.put(None)
        self._worker.join(timeout_s)
        return not self._worker.is_alive()

    def _run(self) -> None:
        while (task := self._tasks.get()) is not None and not self._is_stopping:
            try:
                task()
            except BaseException as error:  # noqa: BLE001 - the node stops with whatever it is
                _call_on(self._loop, self._failed, error)


CHECK_STEPS_S: Final = 0.001
"""After so much time in one check, the next one is chosen."""
PRUNED_EVERY: Final = 16
"""After so many new checks those that were cancelled go."""


class CheckThread:
    """Carries out checks of what strangers sent, in steps, the lowest rank first; see `CheckInSteps`.

    The thread begins with the first check: most nodes serve no clients.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, *, failed: Failed) -> None:
        self._loop = loop
        self._failed = failed
        self._new: SimpleQueue[CheckInSteps | None] = SimpleQueue()
        self._waiting: list[tuple[tuple[int, ...], int, CheckInSteps]] = []
        self._taken = 0
        self._is_stopping = False
        self._worker: threading.Thread | None = None

    def submit(self, check: CheckInSteps) -> None:
        self._new.put(check)
        if self._worker is None:
            self._worker = threading.Thread(target=self._run, name="pykraft-checks", daemon=True)
            self._worker.start()

    def stop(self, timeout_s: float | None = None) -> bool:
        """Finish the current step and begin no other; False when it did not end in time. Blocks."""
        if self._worker is None:
            return True
        self._is_stopping = True
        self._new.put(None)
        self._worker.join(timeout_s)
        return not self._worker.is_alive()

    def _run(self) -> None:
        try:
            while not self._is_stopping:
                self._take_new(pause_s=None if not self._waiting else 0)
                if not self._is_stopping:
                    self._go_on()
        except BaseException as error:  # noqa: BLE001 - the node stops with whatever it is
            _call_on(self._loop, self._failed, error)

    def _take_new(self, *, pause_s: float | None) -> None:
        """Take what was submitted; wait for the first so long (None: for ever)."""
        with suppress(Empty):
            check = self._new.get(timeout=pause_s) if pause_s != 0 else self._new.get_nowait()
            while check is not None:
                self._taken += 1
                heappush(self._waiting, (check.rank, self._taken, check))
                if self._taken % PRUNED_EVERY == 0:
                    self._prune()
                check = self._new.get_nowait()

    def _prune(self) -> None:
        """Free what cancelled checks hold: they may be behind many others."""
        self._waiting = [entry for entry in self._waiting if not entry[2].is_cancelled]
        heapify(self._waiting)

    def _go_on(self) -> None:
        """Go on with the first check for a while."""
        *_, check = self._waiting[0]
        begun_s, took_s, is_over = monotonic(), -1.0, check.is_cancelled
        try:
            while not is_over and took_s < CHECK_STEPS_S:
                next(check.steps)
                took_s, is_over = monotonic() - begun_s, check.is_cancelled
        except StopIteration as end:
            is_over = True
            _call_on(self._loop, check.ended, end.value)
        if is_over:
            heappop(self._waiting)
        if check.is_doubtful:
            # Others go on at once; and the loop shares the interpreter with this thread.
            self._take_new(pause_s=max(0.0, took_s))


def _call_on(loop: asyncio.AbstractEventLoop, act: Callable[[T], None], argument: T) -> None:
    # A RuntimeError means that the loop is closed: nobody waits any more.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(act, argument)

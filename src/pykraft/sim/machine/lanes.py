"""The two lanes of one process, and what a node needs of its world.

The ordered lane takes all waiting jobs at once, as the server's thread does. Each turn takes some virtual time; jobs
submitted meanwhile wait for the next one. The bulk lane does one long read or write at a time. Invariant: each lane
works, and reports, in the order of submission. Time passes between a read and its report, so the result may be out of
date when the host gets it. A process may end in the middle of either lane's work.

An observer is called at the moment that its method names, and changes nothing in the node unless the method says so.

Source: `pykraft.host.ports.Ports.submit` and ``submit_read``, whose contract it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol, TypeVar

from pykraft.config import NodeConfig
from pykraft.core.effects import Report
from pykraft.errors import StorageError
from pykraft.log.lane import Job
from pykraft.sim.machine.clock import Clock
from pykraft.sim.machine.disk import Interrupted
from pykraft.sim.machine.network import Network
from pykraft.sim.machine.spoken import Spoken
from pykraft.sim.machine.trace import Trace
from pykraft.sim.scenario.scenario import Storage
from pykraft.types import Io

N_contra = TypeVar("N_contra", contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What all nodes of a world share."""

    clock: Clock
    network: Network
    trace: Trace
    storage: Storage
    """How disks behave and how long they take."""
    bulk_factor: int
    """How many times as long a turn of the bulk lane takes as one of the ordered lane."""


class NodeObserver(Protocol[N_contra]):
    """Called for everything that happens to a node; the type parameter is the node's own class."""

    def touch(self, node: N_contra) -> None:
        """The present event concerns this node."""

    def starting(self, node: N_contra) -> None:
        """The program is about to start, from what the disk holds."""

    def configured(self, node: N_contra) -> NodeConfig:
        """The configuration for its next process."""

    def started(self, node: N_contra) -> None:
        """A process begins, after its recovery and before its first step; the observer sets the node's ledger."""

    def power_goes(self, node: N_contra) -> None:
        """The node is about to lose power: from now on its files are what the platter holds."""

    def process_ended(self, node: N_contra) -> None:
        """A process ended, or did not get through its recovery."""

    def interrupted(self, node: N_contra, interruption: Interrupted) -> None:
        """A process ended in the middle of an operation on its disk."""

    def disk_failed(self, node: N_contra, error: StorageError) -> None:
        """A program ended with this storage error; the disk may be replaced now."""

    def durable_epoch(self, node: N_contra) -> int:
        """The epoch that a power loss now would leave on this node."""

    def performs(self, node: N_contra, jobs: Sequence[Job]) -> None:
        """The ordered lane is about to carry out these jobs; it may be interrupted in the middle."""

    def stopped(self, node: N_contra, error: Exception | None) -> None:
        """A program stopped, with an error or (None) after a shutdown."""

    def woken(self, node: N_contra) -> None:
        """The timer that the host set rings."""

    def dialed(self, node: N_contra, target_id: int) -> None:
        """The node dials another one."""

    def before_send(self, node: N_contra, spoken: Spoken) -> None:
        """A frame of the quorum is about to leave."""

    def submitted(self, node: N_contra, job: Job) -> None:
        """The host submits a storage job; the node's ledger does not hold it yet."""

    def persisted(self, node: N_contra) -> None:
        """Every storage job is done."""

    def reported(self, node: N_contra, report: Report) -> None:
        """The host reports something to its operator."""


T = TypeVar("T")


class LaneOwner(Protocol):
    """The process that a lane belongs to."""

    def touch(self) -> None:
        """Record that the present event concerns this process."""

    def lane_delay_us(self) -> int:
        """How long the next turn of a lane takes."""

    def later(self, delay_us: int, act: Callable[[], None]) -> None:
        """Call this after the delay, if the process still runs."""

    def waits_for_disk(self, act: Callable[[], None]) -> bool:
        """When the disk stalls, plan ``again`` for later and return True."""

    def perform(self, jobs: Sequence[Job]) -> Io:
        """Carry out these jobs on the disk. Errors: Interrupted, StorageError."""

    def cannot_write(self, problem: Interrupted | StorageError) -> None:
        """End the process with this error."""

    def persisted(self) -> None:
        """Called when no storage job waits or is being done."""

    def told(self, io: Io) -> None:
        """Tell the host that everything up to this job is durable."""


class SimulatedOrderedLane:
    """The storage jobs of one process."""

    def __init__(self, owner: LaneOwner, rng: Random) -> None:
        self._owner = owner
        self._rng = rng
        self._queue: list[Job] = []
        self._is_busy = False

    @property
    def is_idle(self) -> bool:
        """True when no storage job waits or is being done."""
        return not self._is_busy

    def submit(self, job: Job) -> None:
        """Carry out this job in the next turn."""
        self._queue.append(job)
        if not self._is_busy:
            self._begin()

    def _begin(self) -> None:
        """One turn: 1. it takes all jobs that wait, and 2. carries them out."""
        self._is_busy = True
        jobs, self._queue = self._queue, []
        duration_us = self._owner.lane_delay_us()
        until_done_us = self._rng.randrange(duration_us)
        self._owner.later(until_done_us, lambda: self._perform(jobs, duration_us - until_done_us))

    def _perform(self, jobs: Sequence[Job], until_told_us: int) -> None:
        """Carry them out; unless the process ends in the middle, 3. the host is told, a little later."""
        self._owner.touch()
        if self._owner.waits_for_disk(lambda: self._perform(jobs, until_told_us)):
            return
        try:
            io = self._owner.perform(jobs)
        except (Interrupted, StorageError) as problem:
            self._owner.cannot_write(problem)
            return
        self._owner.later(until_told_us, lambda: self._end_turn(io))

    def _end_turn(self, io: Io) -> None:
        self._owner.touch()
        self._is_busy = False
        if self._queue:
            self._begin()
        else:
            self._owner.persisted()
        self._owner.told(io)


class BulkLane:
    """The long reads and writes of one process."""

    def __init__(self, owner: LaneOwner, surroundings: Surroundings) -> None:
        self._owner = owner
        self._surroundings = surroundings
        self._waiting: deque[tuple[Callable[[], Callable[[], None]], int]] = deque()
        """What waits; each with the time between doing it and reporting it."""
        self._done: deque[Callable[[], None]] = deque()
        self._due_us = 0
        """When the last submitted work is to be reported."""

    @property
    def is_idle(self) -> bool:
        """True when nothing waits, runs, or is still to be reported."""
        return not self._waiting and not self._done

    def submit(self, act: Callable[[], T], then: Callable[[T], None]) -> None:
        """Do this after everything submitted before, and report it a little later. A disk error ends the node."""

        def do() -> Callable[[], None]:
            result = act()
            return lambda: then(result)

        now_us = self._surroundings.clock.now_us
        delay_us = self._owner.lane_delay_us()
        # A turn that is slow already is not multiplied: more than a second would be a stop, not slowness.
        longest_us = max(delay_us, self._surroundings.storage.slow_turn_us_max)
        duration_us = min(delay_us * self._surroundings.bulk_factor, longest_us)
        self._due_us = max(self._due_us, now_us + duration_us)
        until_told_us = duration_us // 2
        self._waiting.append((do, until_told_us))
        self._owner.later(self._due_us - now_us - until_told_us, self._do)

    def _do(self) -> None:
        """Do the next work that waits; on a stalled disk, later."""
        self._owner.touch()
        if self._owner.waits_for_disk(self._do):
            return
        do, until_told_us = self._waiting.popleft()
        try:
            self._done.append(do())
        except (Interrupted, StorageError) as problem:
            self._owner.cannot_write(problem)
        else:
            self._owner.later(until_told_us, self._tell)

    def _tell(self) -> None:
        """Report the result of the oldest work that is done."""
        self._owner.touch()
        self._done.popleft()()

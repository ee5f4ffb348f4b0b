"""Runs many worlds on all cores: seeds in, outcomes out.

A failure names the oracle, the faults that happened before it, and the one command that replays it. Seeds are
independent, so a range can be split anywhere and run on different machines (`pykraft.sim.run.campaign`).

Calls a function with many arguments in worker processes; results come in the order of the arguments.

Invariant: the workers end at once when the iterator is closed, whatever they are doing, and also when this process
dies. A Ctrl-C in the terminal or its end, which all processes get, is left to this process.

Source: TigerBeetle's VOPR (seed replay); madsim.
"""

import gc
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import active_children, get_context, parent_process, resource_tracker
from shlex import quote
from typing import Final, TypeVar

from pykraft.process.signals import ENDING, signals_later
from pykraft.sim.clients.others import MakeUsers
from pykraft.sim.invariants import ALL, Invariant
from pykraft.sim.invariants.violation import ViolationError
from pykraft.sim.machine.trace import Recorder
from pykraft.sim.run.world import Outcome, World
from pykraft.sim.scenario.scenario import DEFAULT, Scenario

A = TypeVar("A")
R = TypeVar("R")

TASK_SIZE_MAX: Final = 4
TASKS_A_WORKER: Final = 50
"""With so many tasks for each worker a task has several arguments; with fewer, results would come late and in lumps."""
NO_COMPLAINT: Final = "ignore::UserWarning:multiprocessing.resource_tracker"
"""An option for Python's processes, as ``-W`` takes it."""
GARBAGE_THRESHOLD: Final = 20_000
"""New objects before a worker collects garbage; Python's default is 700."""


def call_in_workers(function: Callable[[A], R], arguments: Sequence[A], *, workers: int) -> Generator[R]:
    """Yield the results. Errors: those of the function; BrokenProcessPool when a worker was killed."""
    others = set(active_children())
    size = max(1, min(TASK_SIZE_MAX, len(arguments) // (workers * TASKS_A_WORKER)))
    pool: ProcessPoolExecutor | None = None
    is_done = False
    try:
        _start_cleaner()
        with _without_signals():
            pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_serve_the_parent)
            results = pool.map(function, arguments, chunksize=size)
        yield from results
        is_done = True
    finally:
        if not is_done:
            # Nobody wants what they are working on.
            for worker in set(active_children()) - others:
                worker.kill()
        if pool is not None:
            pool.shutdown(cancel_futures=True)


def _start_cleaner() -> None:
    """Start Python's cleaner of semaphores now, since Python unblocks SIGINT and SIGTERM when it has started it.

    A process that a signal ends leaves its semaphores to the cleaner; to warn of that is to complain of its work.
    """
    if NO_COMPLAINT not in sys.warnoptions:
        sys.warnoptions.append(NO_COMPLAINT)
    with _without_signals():
        resource_tracker.ensure_running()


@contextmanager
def _without_signals() -> Iterator[None]:
    """Processes started within the block never get SIGINT or SIGHUP; this one gets them, and SIGTERM, after the block.

    A worker that is interrupted while it imports would print a traceback, and so would Python's cleaner of semaphores
    if it were started anew while the pool ends. So would a worker whose parent is interrupted while it starts it, since
    its instructions end in the middle.
    """
    # Blocking is not enough: another thread gets the signal then, and Python runs the handler in this one.
    with signals_later():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve_the_parent() -> None:
    """Set up a worker: it ends when the parent ends.

    The objects of a world form one large cycle, so there is hardly any garbage until the world is over; looking for it
    took a twelfth of the time.
    """
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    gc.set_threshold(GARBAGE_THRESHOLD)
    threading.Thread(target=_end_with_the_parent, daemon=True).start()


def _end_with_the_parent() -> None:
    parent = parent_process()
    assert parent is not None, "a process of the pool has one"
    parent.join()
    os._exit(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A seed whose world broke a rule or raised an error: the reason, and the last lines of the trace."""

    seed: int
    finding: str
    """What two failures must share to be the same: the error and, for a violation, the oracle."""
    reason: str
    story: str
    trace: tuple[str, ...]
    at_us: int = 0
    """Virtual time of the failure."""
    events: int = 0
    """Number of events until then: frames, disk turns, timers, client calls, fault decisions."""
    voters: int = 0
    observers: int = 0
    harm: tuple[tuple[int, str], ...] = ()
    """Fault decisions that were carried out before it: number and kind."""
    faults: dict[str, int] = field(default_factory=dict)
    """How often each kind of fault happened before it."""
    states: dict[str, dict[str, int]] = field(default_factory=dict)
    """By kind of fault: how often it hit a node in each role."""


def simulate(
    seed: int,
    *,
    scenario: Scenario = DEFAULT,
    oracles: Sequence[type[Invariant]] = ALL,
    print_line: Callable[[str], None] | None = None,
    recorder: Recorder | None = None,
    until_us: int | None = None,
    make_users: MakeUsers | None = None,
) -> Outcome | Failure:
    """Run one world, to its end or until ``until_us``; the other arguments are those of `World`."""
    world: World | None = None
    try:
        world = World(
            seed, scenario=scenario, oracles=oracles, print_line=print_line, recorder=recorder, make_users=make_users
        )
        outcome = world.run(until_us=until_us)
    except Exception as error:  # noqa: BLE001 (whatever a world raises is a finding)
        finding = name = type(error).__name__
        if isinstance(error, ViolationError):
            finding += f": {error.invariant}"
        reason, story = f"{name}: {error}", "".join(traceback.format_exception(error))
        if world is None:
            return Failure(seed=seed, finding=finding, reason=reason, story=story, trace=())
        world.record_end()
        return Failure(
            seed=seed,
            finding=finding,
            reason=reason,
            story=story,
            trace=tuple(world.trace.lines),
            at_us=world.clock.now_us,
            events=world.clock.happened,
            voters=world.voter_count,
            observers=world.observer_count,
            harm=tuple(world.faults.done),
            faults=dict(sorted(world.faults.counts.items())),
            states=world.faults.states,
        )
    world.record_end()
    return outcome


def simulate_all(seeds: Sequence[int], *, workers: int, scenario: Scenario = DEFAULT) -> Iterator[Outcome | Failure]:
    """Yield outcomes in order of the seeds, from this many processes; closing the iterator stops them."""
    live = partial(simulate, scenario=scenario)
    if workers == 1:
        yield from map(live, seeds)
        return
    yield from call_in_workers(live, seeds, workers=workers)


def replay_command(seed: int, words: Sequence[str] = ()) -> str:
    """The command that replays this seed; ``words`` are the options that chose the scenario."""
    return " ".join(("bin/pykraft sim replay --seed", str(seed), *map(quote, words)))

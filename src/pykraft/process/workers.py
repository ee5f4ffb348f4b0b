"""Calls a function with many arguments in worker processes; results come in the order of the arguments.

Invariant: the workers end at once when the iterator is closed, whatever they are doing, and also when this process
dies. A Ctrl-C in the terminal or its end, which all processes get, is left to this process.

Source: Python's ``concurrent.futures`` and ``multiprocessing``.
"""

import gc
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process, resource_tracker
from typing import Final, TypeVar

from pykraft.process.signals import ENDING, signals_later

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
            # Not its `map`, which cancels what is left when it is closed: the thread of the pool of Debian 12's Python
            # then prints a traceback when the workers are killed.
            parts = (arguments[at : at + size] for at in range(0, len(arguments), size))
            waiting = deque(pool.submit(_results, function, part) for part in parts)
        while waiting:
            yield from waiting.popleft().result()
        is_done = True
    finally:
        if not is_done:
            # Nobody wants what they are working on.
            for worker in set(active_children()) - others:
                worker.kill()
        if pool is not None:
            pool.shutdown(cancel_futures=True)


def _results(function: Callable[[A], R], arguments: Sequence[A]) -> list[R]:
    return [function(each) for each in arguments]


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

"""Calls a function with many arguments in worker processes; results come in the order of the arguments.

Invariant: the workers end at once when the iterator is closed, whatever they are doing, and also when this process
dies. A Ctrl-C in the terminal or its end, which all processes get, is left to this process.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from typing import Final, TypeVar

A = TypeVar("A")
R = TypeVar("R")

TASK_SIZE_MAX: Final = 4
TASKS_A_WORKER: Final = 50
"""With so many tasks for each worker a task has several arguments; with fewer, results would come late and in lumps."""
GARBAGE_THRESHOLD: Final = 20_000
"""New objects before a worker collects garbage; Python's default is 700."""


def call_in_workers(function: Callable[[A], R], arguments: Sequence[A], *, workers: int) -> Generator[R]:
    """Yield the results. Errors: those of the function; BrokenProcessPool when a worker was killed."""
    others = set(active_children())
    size = max(1, min(TASK_SIZE_MAX, len(arguments) // (workers * TASKS_A_WORKER)))
    pool: ProcessPoolExecutor | None = None
    is_done = False
    try:
        with _without_signals():  # the pool starts a process, too: the one that cleans up its semaphores
            pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_serve_the_parent)
        with _without_signals():  # again, because Python unblocks SIGINT and SIGTERM when it has started that process
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
        if not is_done:
            # A process that a signal ends skips Python's clean-up, and the cleaner would complain of the semaphores.
            del pool
            gc.collect()


@contextmanager
def _without_signals() -> Iterator[None]:
    """Processes started within the block never get SIGINT or SIGHUP; this one gets them, and SIGTERM, after the block.

    A worker that is interrupted while it imports would print a traceback, and so would Python's cleaner of semaphores
    if it were started anew while the pool ends. So would a worker whose parent is interrupted while it starts it, since
    its instructions end in the middle.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP, signal.SIGTERM})
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

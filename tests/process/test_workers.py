"""Results come in order; workers that nobody waits for end at once."""

import os
import select
import signal
import threading
from contextlib import closing

import pytest

from pykraft.process.workers import call_in_workers

LIMIT_S = 60.0


def worker_of(number: int) -> tuple[int, int, bool]:
    """The number, the worker, and whether the terminal's signals are blocked in it."""
    return number, os.getpid(), {signal.SIGINT, signal.SIGHUP} <= signal.pthread_sigmask(signal.SIG_BLOCK, ())


def stay(number: int) -> int:
    """The worker of number 0; other calls do not return."""
    if number:
        threading.Event().wait(1_000)
    return os.getpid()


def fail(number: int) -> int:
    return 1 // number


def test_results_come_in_order_from_workers_that_signals_of_the_terminal_do_not_reach() -> None:
    found = list(call_in_workers(worker_of, range(3), workers=2))
    assert [number for number, _, _ in found] == [0, 1, 2]
    assert os.getpid() not in {worker for _, worker, _ in found}
    assert all(is_blocked for _, _, is_blocked in found)
    assert not {signal.SIGINT, signal.SIGHUP} & signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_a_busy_worker_ends_when_nobody_wants_its_result() -> None:
    with closing(call_in_workers(stay, range(8), workers=2)) as found:
        worker = os.pidfd_open(next(found))
    try:
        assert select.select([worker], [], [], LIMIT_S)[0], "still there"
    finally:
        os.close(worker)


def test_an_error_comes_here() -> None:
    with pytest.raises(ZeroDivisionError):
        list(call_in_workers(fail, range(1), workers=1))

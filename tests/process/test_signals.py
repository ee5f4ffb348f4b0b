"""Signals do after a block what they did before it, and a delayed signal comes when the block ends.

A process ends by the signals that it was not started to ignore.

A signal that comes while the command line loads ends the process by that signal, with one line.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from pykraft.local.voters import SOURCES
from pykraft.process.signals import ENDING, ending_signals, handlers_restored, signals_later
from tests.full_pipe import full_pipe


@pytest.fixture
def came() -> Iterator[list[int]]:
    """Has the number of each SIGTERM; SIGHUP is ignored."""
    numbers: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: numbers.append(number))
    ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    yield numbers
    signal.signal(signal.SIGTERM, before)
    signal.signal(signal.SIGHUP, ignored)


def test_signals_are_delayed_and_those_that_are_ignored_stay_so(came: list[int]) -> None:
    with signals_later():
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGHUP)
        assert came == []
    assert came == [signal.SIGTERM]


def test_a_signal_comes_also_after_an_error(came: list[int]) -> None:
    def fail() -> None:
        with signals_later():
            signal.raise_signal(signal.SIGTERM)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert came == [signal.SIGTERM]


def test_handlers_are_put_back_also_after_an_error(came: list[int]) -> None:
    before = signal.getsignal(signal.SIGTERM)

    def fail() -> None:
        with handlers_restored([signal.SIGTERM]):
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert signal.getsignal(signal.SIGTERM) is before
    assert came == []


def test_a_handler_that_python_did_not_set_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    handlers: list[object] = []
    monkeypatch.setattr(signal, "getsignal", lambda _: None)
    monkeypatch.setattr(signal, "signal", lambda _, handler: handlers.append(handler))
    with signals_later(), handlers_restored([signal.SIGTERM]):
        pass
    assert handlers == []


def test_in_another_thread_nothing_is_changed(came: list[int]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    found: list[object] = []

    def change_handlers() -> None:
        with signals_later(), handlers_restored([signal.SIGTERM]):
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=change_handlers)
    thread.start()
    thread.join()
    assert found == [before]
    assert came == []


def test_an_ignored_signal_is_left_out() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert ending_signals() == (signal.SIGINT, signal.SIGTERM)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert ending_signals() == ENDING


LINES = {
    signal.SIGINT: "a script: interrupted\n",
    signal.SIGTERM: "a script: ended by SIGTERM\n",
    signal.SIGHUP: "a script: ended by SIGHUP\n",
}
BEGIN = "import os, signal, sys; from pykraft.process.signals import end_on_early_signals; "
TELL = "end_on_early_signals('a script'); "


def run(program: str, *, stderr: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BEGIN + program],
        env=os.environ | {"PYTHONPATH": str(SOURCES)},
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("number", ENDING)
def test_it_ends_the_process_with_one_line_also_if_it_came_while_it_was_blocked(number: signal.Signals) -> None:
    kill = f"os.kill(os.getpid(), {number}); "
    for program in (TELL + kill, f"signal.pthread_sigmask(signal.SIG_BLOCK, [{number}]); {kill}{TELL}"):
        done = run(program)
        assert (done.returncode, done.stdout, done.stderr) == (-number, "", LINES[number])


@pytest.mark.parametrize("number", ENDING)
def test_process_1_of_a_container_ends_too(number: signal.Signals) -> None:
    # The kernel delivers no signal with its default action to process 1. Here `os.kill` does nothing in its stead.
    done = run(f"{TELL}own, kill, os.kill = os.getpid(), os.kill, lambda *_: None; kill(own, {number})")
    assert (done.returncode, done.stderr) == (128 + number, LINES[number])


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    done = run(f"signal.signal(signal.SIGHUP, signal.SIG_IGN); {TELL}os.kill(os.getpid(), signal.SIGHUP); print('on')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "on\n", "")


def test_nobody_waits_for_a_reader_that_reads_nothing() -> None:
    with full_pipe() as writing:
        done = run(f"{TELL}os.kill(os.getpid(), signal.SIGTERM)", stderr=writing)
    assert done.returncode == -signal.SIGTERM


def test_nothing_breaks_without_a_standard_error() -> None:
    assert run(f"{TELL}os.close(2); os.kill(os.getpid(), signal.SIGINT)").returncode == -signal.SIGINT

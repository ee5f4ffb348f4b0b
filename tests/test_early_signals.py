"""A signal that comes while the command line loads ends the process by that signal, with one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from pykraft.ending_signals import ENDING
from pykraft.local.cluster import SOURCES
from tests.full_pipe import full_pipe

LINES = {
    signal.SIGINT: "a script: interrupted\n",
    signal.SIGTERM: "a script: ended by SIGTERM\n",
    signal.SIGHUP: "a script: ended by SIGHUP\n",
}
BEGIN = "import os, signal, sys; from pykraft.early_signals import tell_early_signals; "
TELL = "tell_early_signals('a script'); "


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

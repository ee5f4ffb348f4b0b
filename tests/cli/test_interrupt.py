"""A signal ends a command once, with one line; whatever breaks while it unwinds is not told."""

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from pykraft.cli import interrupt
from pykraft.cli.errors import run_with_exit_codes
from pykraft.cli.interrupt import EXIT_SIGNAL, CommandInterrupted, hang_up, interruptible, signals_to
from pykraft.local.child import wait_until
from pykraft.local.voters import SOURCES
from pykraft.process.signals import ENDING

STUBBORN = """
import signal, sys, time
from pykraft.cli.interrupt import CommandInterrupted, interruptible

def command():
    while True:
        try:
            print("ready", flush=True)
            time.sleep(60)
        except SystemExit:
            pass

try:
    interruptible(command)
except CommandInterrupted as interrupted:
    interrupted.end_process()
"""
"""A command that goes on although the signal was raised in it."""
FULL = STUBBORN.replace('print("ready", flush=True)', 'print("ready", flush=True); sys.stdout.write("x" * (1 << 20))')
FULL = FULL.replace("except SystemExit:\n            pass", "finally:\n            pass")
"""A command whose output nobody reads."""


def is_asleep(pid: int) -> bool:
    """Whether the kernel has the process wait in a system call."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def get(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (signal.SIGINT, "pykraft: interrupted\n"),
        (signal.SIGTERM, "pykraft: ended by SIGTERM\n"),
        (signal.SIGHUP, "pykraft: ended by SIGHUP\n"),
    ],
)
def test_a_signal_unwinds_and_the_handlers_before_are_back(
    number: signal.Signals, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {each: signal.getsignal(each) for each in ENDING}
    with pytest.raises(CommandInterrupted) as ended:
        interruptible(lambda: get(number))
    assert (ended.value.code, ended.value.number) == (EXIT_SIGNAL + number, number)
    assert {each: signal.getsignal(each) for each in ENDING} == before
    assert capsys.readouterr() == ("", told)


def test_a_second_signal_and_what_breaks_meanwhile_change_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    finished: list[bool] = []

    def command() -> None:
        try:
            get(signal.SIGTERM)
        finally:
            get(signal.SIGINT)
            logging.getLogger("asyncio").error("a task was never awaited")
            thread = threading.Thread(target=int, args=("x",))
            thread.start()
            thread.join()
            finished.append(True)
            raise OSError("the terminal is closed")

    with pytest.raises(CommandInterrupted) as ended:
        interruptible(command)
    assert ended.value.number == signal.SIGTERM
    assert finished == [True]
    assert capsys.readouterr() == ("", "pykraft: ended by SIGTERM\n")
    assert logging.root.manager.disable == logging.NOTSET


def test_a_command_that_catches_it_has_ended_by_it_too(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        with pytest.raises(SystemExit):
            get(signal.SIGINT)

    with pytest.raises(CommandInterrupted):
        interruptible(command, "a script")
    assert capsys.readouterr().err == "a script: interrupted\n"


def test_without_a_signal_nothing_happens() -> None:
    assert interruptible(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        interruptible(lambda: 1 // 0)


def test_another_thread_has_no_handlers_to_set() -> None:
    results: list[int] = []
    thread = threading.Thread(target=lambda: results.append(interruptible(lambda: 7)))
    thread.start()
    thread.join()
    assert results == [7]


def test_what_was_ignored_at_the_start_stays_ignored() -> None:
    def ignored(number: signal.Signals) -> Callable[[], int]:
        def command() -> int:
            get(number)
            return 7

        return command

    for number in ENDING:
        before = signal.signal(number, signal.SIG_IGN)
        try:
            assert interruptible(ignored(number)) == 7
        finally:
            signal.signal(number, before)


def test_a_signal_may_be_given_to_the_command_instead(capsys: pytest.CaptureFixture[str]) -> None:
    came: list[signal.Signals] = []

    def command() -> int:
        with signals_to(came.append):
            get(signal.SIGTERM)
            get(signal.SIGINT)
        return 7

    assert interruptible(command) == 7
    assert came == [signal.SIGTERM]
    assert capsys.readouterr() == ("", "")


@pytest.fixture
def closed_terminal() -> Iterator[int]:
    other, terminal = os.openpty()
    os.close(other)
    yield terminal
    os.close(terminal)


def test_a_closed_terminal_counts_as_sighup(closed_terminal: int, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CommandInterrupted) as ended:
        interruptible(lambda: hang_up(closed_terminal))
    assert ended.value.number == signal.SIGHUP
    assert capsys.readouterr() == ("", "pykraft: ended by SIGHUP\n")


def test_what_a_closed_terminal_breaks_ends_by_sighup(closed_terminal: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupt, "STANDARD_STREAMS", (closed_terminal,))

    @click.command()
    def question() -> None:
        raise click.Abort

    @click.command()
    def answer() -> None:
        os.write(closed_terminal, b"yes")

    for command in (question, answer):
        monkeypatch.setattr(sys, "argv", ["pykraft"])
        with pytest.raises(CommandInterrupted) as ended:
            run_with_exit_codes(command)
        assert ended.value.number == signal.SIGHUP
    with pytest.raises(CommandInterrupted) as ended:
        interruptible(lambda: os.write(closed_terminal, b"it breaks while an error is told"))
    assert ended.value.number == signal.SIGHUP


def test_hanging_up_does_nothing_without_a_closed_terminal_or_if_sighup_is_ignored(closed_terminal: int) -> None:
    other, terminal = os.openpty()
    reading, writing = os.pipe()
    os.close(writing)
    gone = os.dup(reading)
    os.close(gone)
    assert not hang_up(terminal, reading, gone)
    for descriptor in (other, terminal, reading):
        os.close(descriptor)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert not hang_up(closed_terminal)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("program", [STUBBORN, FULL])
def test_what_cannot_be_interrupted_does_not_delay_the_end(program: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(SOURCES)},
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        # A signal that comes just before a call that blocks is handled by Python only after that call.
        wait_until(lambda: is_asleep(process.pid), "the command to block")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) in {-signal.SIGTERM, EXIT_SIGNAL + signal.SIGTERM}
        assert process.stderr.read() == "pykraft: ended by SIGTERM\n"

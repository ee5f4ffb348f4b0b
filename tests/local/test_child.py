"""Child processes are identified by pid and none is left behind; a wait ends with its result, or once there is none."""

from __future__ import annotations

import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from pykraft.errors import LocalQuorumError
from pykraft.local.child import Child, Children, wait_until

READY = "print('ready', flush=True); signal.pause()"
POLITE = f"import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); {READY}"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {READY}"


def start(children: Children, code: str, log: Path, *, lines: int = 1) -> Child:
    child = children.start("a child", [sys.executable, "-c", code], log)
    wait_until(lambda: child.log().count("ready") == lines, "the child to be ready", alive=[child])
    return child


def test_a_child_is_stopped_killed_and_started_again_with_one_log(children: Children, tmp_path: Path) -> None:
    assert start(children, POLITE, tmp_path / "log").stop() == 7
    second = start(children, POLITE, tmp_path / "log", lines=2)
    second.kill()
    assert second.status == -signal.SIGKILL


def test_a_paused_child_can_be_resumed_and_killed(children: Children, tmp_path: Path) -> None:
    child = start(children, POLITE, tmp_path / "log")
    child.pause()
    state = Path(f"/proc/{child.pid}/stat")
    wait_until(lambda: state.read_text().rpartition(")")[2].split()[0] == "T", "the child to be paused")
    child.resume()
    assert child.stop() == 7


def test_nothing_is_left_behind_even_when_a_test_fails(tmp_path: Path) -> None:
    started: list[Child] = []
    reports: list[str] = []

    def fail() -> None:
        with Children(report=reports.append) as children:
            started.append(start(children, DEAF, tmp_path / "log"))
            started[0].pause()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert started[0].status == -signal.SIGKILL
    assert reports == [f"--- the end of a child's log, {tmp_path / 'log'}\nready"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_process_is_being_started_leaves_none_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    started: list[Child] = []

    class Interrupted(Child):
        """The signal comes when the process is there and nobody knows it yet."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)
            signal.raise_signal(number)

    def end(number: int, frame: FrameType | None) -> None:
        sys.exit(number)

    monkeypatch.setattr("pykraft.local.child.Child", Interrupted)
    before = {each: signal.signal(each, end) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        with pytest.raises(SystemExit), Children() as children:
            children.start("a child", [sys.executable, "-c", DEAF], tmp_path / "log")
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert [child.status for child in started] == [-signal.SIGKILL]


def test_another_thread_starts_processes_too(tmp_path: Path) -> None:
    with Children() as children, ThreadPoolExecutor() as pool:
        child = pool.submit(start, children, POLITE, tmp_path / "log").result()
        assert child.stop() == 7


def test_nothing_is_started_when_the_block_is_over(tmp_path: Path) -> None:
    with Children() as children:
        pass
    with pytest.raises(LocalQuorumError, match="late was not started"):
        children.start("late", ["true"], tmp_path / "log")


def test_it_returns_the_first_result() -> None:
    numbers = count()
    assert wait_until(lambda: (number := next(numbers)) > 2 and number, "a number above two") == 3
    assert wait_until(lambda: 0, "nought, which is a result") == 0


def test_it_names_what_did_not_happen() -> None:
    with pytest.raises(LocalQuorumError, match="for a miracle"):
        wait_until(lambda: None, "a miracle", timeout_s=0.05)


def test_it_ends_with_the_process_that_it_waits_for(children: Children, tmp_path: Path) -> None:
    child = children.start("a short life", [sys.executable, "-c", "raise SystemExit(3)"], tmp_path / "log")
    with pytest.raises(LocalQuorumError, match="a short life ended with 3"):
        wait_until(lambda: None, "a miracle", alive=[child])

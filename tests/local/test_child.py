"""Child processes are identified by pid and none is left behind; a wait ends with its result, or once there is none.

When a process dies by kill -9, its children and temporary folders do not outlive it.
"""

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from pykraft.errors import LocalQuorumError
from pykraft.local.child import Child, Children, Keeper, temporary_folder, temporary_root, wait_until
from pykraft.local.voters import SOURCES

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


PARENT = """
import json, sys
from pathlib import Path
from pykraft.local.child import Children
from pykraft.local.child import temporary_folder

place = Path(sys.argv[1])
shell = ["/bin/sh", "-c", "sleep 1000 & echo $! > below; wait"]
sleeping = [sys.executable, "-c", "import time; time.sleep(1000)"]
with temporary_folder("a folder ", place) as folder, Children() as children:
    (folder / "file").touch()
    ended = children.start("ended", ["true"], place / "log")
    ended.wait()
    running = [children.start(str(number), sleeping, place / "log") for number in range(2)]
    running[0].pause()
    group = children.start("group", shell, place / "log", has_group=True)
    print(json.dumps([child.pid for child in (*running, group)]), flush=True)
    sys.stdin.read()
"""
"""It has a child that is paused, one that runs, and a group of two processes."""
INTERRUPTED = """
import os, sys, threading
from contextlib import suppress
from pathlib import Path
from pykraft.local.child import temporary_folder

def write():
    while True:
        with suppress(OSError):
            (folder / "from a thread").mkdir(parents=True, exist_ok=True)

try:
    with temporary_folder("a-", Path(sys.argv[1])) as folder:
        threading.Thread(target=write, daemon=True).start()
        raise SystemExit(7)
finally:
    while not folder.exists():
        pass
"""
"""A thread of it writes into the folder until the process has ended."""
LIMIT_S = 30.0


def test_a_parent_killed_with_9_leaves_no_process_and_no_folder(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(SOURCES)},
    ) as parent:
        assert parent.stdout is not None
        ids = json.loads(parent.stdout.readline())
        below = tmp_path / "below"
        wait_until(lambda: below.exists() and below.read_text().endswith("\n"), "the group to start")
        descriptors = [os.pidfd_open(pid) for pid in (*ids, int(below.read_text()))]
        assert [path.name for path in tmp_path.iterdir() if path.is_dir()]
        parent.kill()
    try:
        for descriptor in descriptors:
            assert select.select([descriptor], [], [], LIMIT_S)[0], "still there"
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
    wait_until(lambda: not [path for path in tmp_path.iterdir() if path.is_dir()], "the folder to be removed")


def test_what_a_thread_writes_after_an_interrupt_goes_too(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path)], env=os.environ | {"PYTHONPATH": str(SOURCES)}, check=False
    )
    assert done.returncode == 7
    wait_until(lambda: not [*tmp_path.iterdir()], "the folder to be removed", timeout_s=LIMIT_S)


def test_finding_the_temporary_folder_is_not_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def temporary_folder() -> str:
        signal.raise_signal(signal.SIGINT)
        done.append("the probe is removed")
        return "/a"

    monkeypatch.setattr(tempfile, "gettempdir", temporary_folder)
    with pytest.raises(KeyboardInterrupt):
        temporary_root()
    assert done


def test_an_ordinary_end_needs_no_keeper(tmp_path: Path) -> None:
    with temporary_folder("a-", tmp_path) as folder:
        (folder / "file").touch()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_stays_if_that_is_decided_at_its_end(tmp_path: Path) -> None:
    errors: list[BaseException | None] = []

    def is_kept(error: BaseException | None) -> bool:
        errors.append(error)
        return isinstance(error, Exception)

    def fail(error: BaseException) -> None:
        with temporary_folder("a-", tmp_path, is_kept=is_kept):
            raise error

    with temporary_folder("a-", tmp_path, is_kept=is_kept):
        pass
    for error in (SystemExit(), OSError()):
        with pytest.raises(type(error)):
            fail(error)
    assert [type(each) for each in errors] == [type(None), SystemExit, OSError]
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(FileNotFoundError), temporary_folder("a-", tmp_path / "absent", is_kept=is_kept):
        pass
    assert len(errors) == 4


def test_a_keeper_that_was_killed_is_not_missed(tmp_path: Path) -> None:
    keeper = Keeper()
    keeper._process.kill()
    keeper._process.wait()
    keeper.know_processes([])
    keeper.know_folder(tmp_path)
    keeper.close()


def test_a_folder_with_a_line_break_is_not_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keeper would remove what the first line names."""
    told: list[str] = []
    keeper = Keeper()
    monkeypatch.setattr(keeper, "_send", told.append)
    keeper.know_folder(tmp_path / "a\nb")
    keeper.know_folder(tmp_path / "a b")
    keeper.close()
    assert told == [f"folder {tmp_path}/a b"]


def test_a_child_without_a_log_writes_to_our_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    with Children() as children:
        child = children.start("a child", ["sh", "-c", "echo a; echo b >&2"], None, has_group=True)
        assert child.wait() == 0
        assert (child.log(), children.log_ends()) == ("", "")
    assert capfd.readouterr() == ("", "a\nb\n")

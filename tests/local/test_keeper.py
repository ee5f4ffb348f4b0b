"""When a process dies by kill -9, its children and temporary folders do not outlive it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pykraft.local.child import Children, wait_until
from pykraft.local.cluster import SOURCES
from pykraft.local.keeper import Keeper, temporary_folder, temporary_root

PARENT = """
import json, sys
from pathlib import Path
from pykraft.local.child import Children
from pykraft.local.keeper import temporary_folder

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
from pykraft.local.keeper import temporary_folder

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

    def found() -> str:
        signal.raise_signal(signal.SIGINT)
        done.append("the probe is removed")
        return "/a"

    monkeypatch.setattr(tempfile, "gettempdir", found)
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
    monkeypatch.setattr(keeper, "_tell", told.append)
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

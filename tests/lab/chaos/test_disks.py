"""A full disk rejects the next bytes, and takes them when there is room again."""

import errno
import io
import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from lab.chaos import disks
from lab.chaos.disks import Disks, Holder
from pykraft.errors import UsageError


def write(path: Path, count: int) -> int:
    """The error number of an attempt to write so many bytes, 0 without one."""
    try:
        with path.open("ab", buffering=0) as file:
            for _ in range(count // 4096):
                file.write(bytes(4096))
    except OSError as error:
        assert error.errno is not None
        return error.errno
    return 0


@pytest.mark.processes
def test_a_full_disk_refuses_and_takes_again(tmp_path: Path) -> None:
    with closing(Disks(tmp_path, 2)) as disks:
        first, second = (disks.folder(index) / "file" for index in range(2))
        assert write(first, 1 << 20) == 0
        disks.fill(0, left_bytes=8192)
        assert write(first, 1 << 20) == errno.ENOSPC
        assert first.stat().st_size == (1 << 20) + 8192
        assert write(second, 1 << 20) == 0
        disks.make_room(0)
        assert write(first, 1 << 20) == 0
        assert list((tmp_path / "disk0").iterdir()) == []  # nobody else's view of the machine has changed


def test_a_machine_that_mounts_nothing_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    holder = tmp_path / "lab" / "chaos" / "disks.py"
    holder.parent.mkdir(parents=True)
    holder.write_text("print('mount: Operation not permitted')")
    for package in (holder.parent, holder.parent.parent):
        (package / "__init__.py").touch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"\(mount: Operation not permitted\).*--without full-disk,full-snapshots"):
        Disks(tmp_path, 1)


@pytest.mark.processes
def test_what_cannot_be_done_is_told(tmp_path: Path) -> None:
    with closing(Disks(tmp_path, 1)) as disks:
        assert write(disks.folder(0) / "file", 1 << 20) == 0
        assert "Invalid argument" in disks._holder.ask(0, 4096)


def test_each_step_is_answered(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    called: list[tuple[object, ...]] = []

    def call(name: str, *arguments: object) -> None:
        called.append((name, *arguments))
        if arguments[-1] == b"size=1,mode=0700":
            raise OSError(22, "too small")

    monkeypatch.setattr(disks, "call", call)
    monkeypatch.setattr("sys.stdin", io.StringIO("0 8192\n1 1\n"))
    disks.main(["4096", "a", "b"])
    assert capsys.readouterr().out.splitlines() == ["done", "done", "[Errno 22] too small"]
    assert [words[2] for words in called if words[0] == "mount"] == [b"/", b"a", b"b", b"a", b"b"]


def test_a_user_keeps_the_ids_in_a_user_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[object] = []
    written: dict[str, str] = {}

    def call(name: str, flags: int) -> None:
        called.append((name, flags))
        if flags == disks.CLONE_NEWNS:
            raise PermissionError(1, "not root")

    monkeypatch.setattr(disks, "call", call)
    monkeypatch.setattr(Path, "write_text", lambda path, text: written.update({path.name: text}))
    disks._enter_namespaces()
    assert called[-1] == ("unshare", disks.CLONE_NEWUSER | disks.CLONE_NEWNS)
    assert written["uid_map"] == f"{os.getuid()} {os.getuid()} 1"


def test_an_error_of_the_system_has_its_number() -> None:
    with pytest.raises(OSError, match="unshare: Invalid argument"):
        disks.call("unshare", -1)


ANSWERS_TWO = """
import sys
print("done", flush=True)
for line in sys.stdin:
    print("heard", line.strip(), sys.argv[1:] if line == "7\\n" else "", flush=True)
    if line == "8\\n":
        break
"""


@pytest.fixture
def pretend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Write a module that stands for one that mounts; returns its name."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def write(text: str) -> str:
        (tmp_path / "stand_in.py").write_text(text)
        return "stand_in"

    return write


def test_each_line_is_answered(tmp_path: Path, pretend: Callable[[str], str]) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    with closing(Holder(pretend(ANSWERS_TWO), 4096, folders)) as holder:
        assert all(folder.is_dir() for folder in folders)
        assert holder.ask(1, 2) == "heard 1 2"
        assert holder.ask(7) == f"heard 7 ['4096', '{tmp_path / 'a'}', '{tmp_path / 'b'}']"
        assert str(holder.folder(1)).startswith("/proc/")
        assert str(holder.folder(1)).endswith(f"/root{tmp_path / 'b'}")
        assert holder.ask(8) == "heard 8"
        assert holder._answer() == "its process ended"


def test_what_is_not_mounted_is_an_error(tmp_path: Path, pretend: Callable[[str], str]) -> None:
    with pytest.raises(OSError, match="mount: Operation not permitted"):
        Holder(pretend("print('mount: Operation not permitted')"), 4096, [tmp_path / "a"])

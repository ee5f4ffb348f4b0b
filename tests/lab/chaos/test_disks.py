"""A full disk rejects the next bytes, and takes them when there is room again."""

from __future__ import annotations

import errno
from contextlib import closing
from pathlib import Path

import pytest

from lab.chaos import disk_holder
from lab.chaos.disks import Disks
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
    holder = tmp_path / "lab" / "chaos" / "disk_holder.py"
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
    assert disk_holder.DONE == "done"

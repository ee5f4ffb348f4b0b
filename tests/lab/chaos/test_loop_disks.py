"""After a power cut what was synced is there and the rest is not; without that no power is cut."""

import errno
import io
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.chaos import loop_disks
from lab.chaos import loop_disks as module
from lab.chaos.disks import DONE, Holder
from lab.chaos.loop_disks import CONTROL_BYTES, FILLER, LoopDisks, left_out, power_problem
from lab.chaos.plan import FaultKind

BLOCK = 4096


@contextmanager
def one_disk(home: Path) -> Iterator[LoopDisks | None]:
    """A disk; None where there can be none, which the error says."""
    try:
        disks = LoopDisks(home, 1, size_bytes=CONTROL_BYTES)
    except OSError as error:
        assert str(error) == power_problem(home)
        assert "\n" not in str(error)
        yield None
        return
    with closing(disks):
        yield disks


@pytest.mark.processes
def test_a_full_disk_stays_full_over_a_power_cut(tmp_path: Path) -> None:
    with one_disk(tmp_path) as disks:
        if disks is not None:
            file = disks.folder(0) / "file"
            file.write_bytes(bytes(BLOCK))
            disks.fill(0, left_bytes=2 * BLOCK)
            for _ in range(2):
                with file.open("ab", buffering=0) as appended, pytest.raises(OSError, match="No space left"):
                    [appended.write(bytes(BLOCK)) for _ in range(4)]
                disks.cut([0])
                # What was not synced is lost, and its room is free again.
                disks.fill(0)
            disks.make_room(0)
            file.write_bytes(bytes(100 * BLOCK))
    assert list(tmp_path.glob("*.img")) == []
    assert [path for path in tmp_path.glob("disk*") if list(path.iterdir())] == []


class Pretended(LoopDisks):
    """A folder that loses what it is told to lose."""

    def __init__(self, home: Path, count: int, *, size_bytes: int, losing: tuple[str, ...] = ()) -> None:
        assert (count, size_bytes) == (1, CONTROL_BYTES)
        self._images = []
        self._home, self._losing = home, losing
        self.folder = lambda index: home

    def cut(self, indexes: Any) -> None:
        assert list(indexes) == [0]
        for name in self._losing:
            os.truncate(self._home / name, 0)

    def close(self) -> None:
        self._losing = ()


@pytest.mark.parametrize(
    ("losing", "problem"),
    [
        (("unsynced",), None),
        ((), "a power cut keeps what was not synced"),
        (("synced", "unsynced"), "a power cut loses what was synced"),
    ],
)
def test_a_control_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, losing: tuple[str, ...], problem: str | None
) -> None:
    monkeypatch.setattr(loop_disks, "LoopDisks", lambda *words, **more: Pretended(*words, **more, losing=losing))
    assert power_problem(tmp_path) == problem
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_fills_no_further_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disks = Pretended(tmp_path, 1, size_bytes=CONTROL_BYTES)
    tries: list[int] = []

    def refuse(_descriptor: int, _position: int, size_bytes: int) -> None:
        tries.append(size_bytes)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", refuse)
    with pytest.raises(OSError, match="a disk could not be filled"):
        disks.fill(0)
    assert len(tries) == loop_disks.TRIES_MAX
    disks.make_room(0)
    assert not (tmp_path / FILLER).exists()


def test_a_power_cut_that_fails_is_an_error(tmp_path: Path) -> None:
    disks = Pretended(tmp_path, 1, size_bytes=CONTROL_BYTES)
    disks._holder = cast(Holder, SimpleNamespace(ask=lambda *indexes: DONE if indexes == (0,) else "no such disk"))
    LoopDisks.cut(disks, [0])
    with pytest.raises(OSError, match="a power cut failed: no such disk"):
        LoopDisks.cut(disks, [1])


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Nothing is mounted: what would have been done, in its order."""
    done: list[str] = []
    monkeypatch.setattr(loop_disks, "call", lambda name, *_: done.append(name))
    monkeypatch.setattr(loop_disks, "keep_mounts_here", lambda: done.append("private"))
    monkeypatch.setattr(loop_disks, "_run", lambda *words: done.append(f"{words[0]} {Path(words[-1]).name}"))
    monkeypatch.setattr("fcntl.ioctl", lambda *words: done.append(f"shut down {words[2].hex()}"))
    return done


def test_power_is_cut_everywhere_before_anything_is_mounted_again(
    tmp_path: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    monkeypatch.setattr("sys.stdin", io.StringIO("0 1\n"))
    loop_disks.main(["8192", str(tmp_path / "a"), str(tmp_path / "b")])
    assert capsys.readouterr().out.splitlines() == ["done", "done"]
    made = ["mkfs.ext4 a.img", "mount a", "mkfs.ext4 b.img", "mount b"]
    assert steps[:6] == ["unshare", "private", *made]
    assert steps[6:] == ["shut down 02000000"] * 2 + ["umount a", "mount a", "umount b", "mount b"]
    assert (tmp_path / "a.img").stat().st_size == 8192


def test_an_unmount_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[str] = []

    def run(*words: str) -> None:
        tries.append(words[0])
        if len(tries) < 3 or words[-1] == "busy":
            raise OSError("umount: target is busy")

    monkeypatch.setattr(loop_disks, "_run", run)
    monkeypatch.setattr(loop_disks, "UNMOUNT_PAUSE_S", 0.0)
    loop_disks._unmount(str(tmp_path))
    assert tries == ["umount"] * 3
    with pytest.raises(OSError, match="busy"):
        loop_disks._unmount("busy")
    assert len(tries) == 3 + loop_disks.UNMOUNT_TRIES


def test_the_first_line_of_a_command_says_why() -> None:
    with pytest.raises(OSError, match=r"^sh: why$"):
        loop_disks._run("sh", "-c", "echo >&2; echo sh: why >&2; echo more >&2; exit 3")
    with pytest.raises(OSError, match=r"^sh: status 3$"):
        loop_disks._run("sh", "-c", "exit 3")


def test_power_cuts_need_a_control_that_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "power_problem", lambda folder: f"no loop device in {folder.name}")
    assert left_out((FaultKind.KILL,), tmp_path, is_dynamic=False) == {}
    why = f"power cuts need root and loop devices (no loop device in {tmp_path.name})"
    assert left_out(tuple(FaultKind), tmp_path, is_dynamic=False) == {
        FaultKind.POWER_CUT: why,
        FaultKind.POWER_CUT_ALL: why,
    }
    assert left_out((FaultKind.POWER_CUT,), tmp_path, is_dynamic=False) == {FaultKind.POWER_CUT: why}
    monkeypatch.setattr(module, "power_problem", lambda folder: None)
    assert left_out(tuple(FaultKind), tmp_path, is_dynamic=False) == {}


def test_a_twin_needs_static_voters(tmp_path: Path) -> None:
    assert left_out((FaultKind.TWIN, FaultKind.KILL), tmp_path, is_dynamic=False) == {}
    assert list(left_out((FaultKind.TWIN, FaultKind.KILL), tmp_path, is_dynamic=True)) == [FaultKind.TWIN]
    assert left_out((FaultKind.KILL,), tmp_path, is_dynamic=True) == {}

"""The process that holds ext4 file systems: the order of its steps, and what it says when one fails.

What it mounts is used in `tests.lab.chaos.test_loop_disks`.
"""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from lab.chaos import loop_holder


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Nothing is mounted: what would have been done, in its order."""
    done: list[str] = []
    monkeypatch.setattr(loop_holder, "call", lambda name, *_: done.append(name))
    monkeypatch.setattr(loop_holder, "keep_mounts_here", lambda: done.append("private"))
    monkeypatch.setattr(loop_holder, "_run", lambda *words: done.append(f"{words[0]} {Path(words[-1]).name}"))
    monkeypatch.setattr("fcntl.ioctl", lambda *words: done.append(f"shut down {words[2].hex()}"))
    return done


def test_power_is_cut_everywhere_before_anything_is_mounted_again(
    tmp_path: Path, steps: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
    monkeypatch.setattr("sys.stdin", io.StringIO("0 1\n"))
    loop_holder.main(["8192", str(tmp_path / "a"), str(tmp_path / "b")])
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

    monkeypatch.setattr(loop_holder, "_run", run)
    monkeypatch.setattr(loop_holder, "UNMOUNT_PAUSE_S", 0.0)
    loop_holder._unmount(str(tmp_path))
    assert tries == ["umount"] * 3
    with pytest.raises(OSError, match="busy"):
        loop_holder._unmount("busy")
    assert len(tries) == 3 + loop_holder.UNMOUNT_TRIES


def test_the_first_line_of_a_command_says_why() -> None:
    with pytest.raises(OSError, match=r"^sh: why$"):
        loop_holder._run("sh", "-c", "echo >&2; echo sh: why >&2; echo more >&2; exit 3")
    with pytest.raises(OSError, match=r"^sh: status 3$"):
        loop_holder._run("sh", "-c", "exit 3")

"""After a power cut what was synced is there and the rest is not; without that no power is cut.

Where nothing can be mounted, as without root, the reason is one line.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from lab.chaos import loop_disks
from lab.chaos.disk_holder import DONE
from lab.chaos.holder import Holder
from lab.chaos.loop_disks import CONTROL_BYTES, FILLER, LoopDisks, power_problem

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

"""The calls of the virtual disk: what they return, when they refuse, and what a failed or interrupted one leaves.

Source: POSIX ``open``, ``pwrite``, ``rename``, ``unlink``; IRON File Systems (SOSP 2005).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from pykraft.errors import StorageError
from pykraft.sim.machine.disk import Interrupted, VirtualDisk
from pykraft.sim.machine.io_errors import WRITE_ERROR
from pykraft.sim.scenario.scenario import Storage
from tests.sim.machine.disks import DIRECTORY, PATH, SEEDS, disk, write, write_durably


def test_a_kill_loses_nothing_but_handles_and_locks() -> None:
    made = disk()
    file = made.open(PATH, create=True)
    file.pwrite([b"data"], 0)
    made.lock(DIRECTORY / ".lock")
    made.drop_handles()
    assert made.read(PATH) == b"data"
    made.lock(DIRECTORY / ".lock").release()
    with pytest.raises(AssertionError, match="dead"):
        file.pread(1, 0)


def test_an_interrupted_write_leaves_a_first_part_in_the_cache() -> None:
    sizes = set()
    for seed in SEEDS:
        made = disk(seed)
        file = made.open(PATH, create=True)
        made.interrupt_within(0, loses_power=False)
        with pytest.raises(Interrupted):
            file.pwrite([b"0123", b"456789"], 0)
        made.drop_handles()
        content = made.read(PATH)
        assert b"0123456789".startswith(content)
        sizes.add(len(content))
    assert sizes == set(range(11))


def test_every_operation_that_changes_the_disk_can_be_interrupted() -> None:
    changes: list[Callable[[VirtualDisk], object]] = [
        lambda made: made.open(PATH, write=True).pwrite([b"x"], 0),
        lambda made: made.open(PATH, write=True).truncate(0),
        lambda made: made.open(PATH).sync(),
        lambda made: made.open(DIRECTORY / "new", create=True),
        lambda made: made.mkdir(DIRECTORY / "new"),
        lambda made: made.rename(PATH, DIRECTORY / "new"),
        lambda made: made.remove(PATH),
        lambda made: made.sync_dir(DIRECTORY),
    ]
    for change in changes:
        made = disk()
        write_durably(made, b"data")
        made.interrupt_within(1, loses_power=True)
        made.sync_dir(DIRECTORY)
        with pytest.raises(Interrupted, match="power lost"):
            change(made)


def test_files_read_and_grow_like_files() -> None:
    made = disk()
    file = made.open(PATH, create=True)
    assert file.pwrite([b"ab", memoryview(b"cd")], 3) == 4
    assert (file.size(), file.pread(100, 1)) == (7, b"\0\0abcd")
    file.truncate(9)
    assert file.pread(4, 5) == b"cd\0\0"
    file.close()


def test_names_are_those_of_the_kernel_until_the_power_goes() -> None:
    made = disk()
    write(made, b"data")
    assert made.exists(PATH)
    assert made.exists(DIRECTORY)
    assert made.listdir(DIRECTORY.parent) == ["log"]
    assert made.listdir(DIRECTORY) == ["a"]
    known = made.directory(DIRECTORY)
    assert known is not None
    assert not known.synced
    assert made.directory(Path("/nowhere")) is None


@pytest.mark.parametrize(
    "refused",
    [
        lambda made: made.open(PATH),
        lambda made: made.open(Path("/nowhere/a"), create=True),
        lambda made: made.mkdir(Path("/nowhere/a")),
        lambda made: made.sync_dir(Path("/nowhere")),
        lambda made: made.lock(Path("/nowhere/.lock")),
        lambda made: made.remove(PATH),
        lambda made: made.rename(PATH, DIRECTORY / "b"),
        lambda made: made.listdir(Path("/nowhere")),
        lambda made: [made.lock(PATH) for _ in range(2)],
    ],
)
def test_what_a_file_system_refuses_is_refused(refused: Callable[[VirtualDisk], object]) -> None:
    with pytest.raises(StorageError):
        refused(disk())


def test_a_file_knows_whether_it_is_at_its_path() -> None:
    made = disk()
    file = made.open(PATH, create=True)
    assert file.is_at(PATH)
    made.rename(PATH, DIRECTORY / "b")
    assert not file.is_at(PATH)
    assert file.is_at(DIRECTORY / "b")
    made.open(PATH, create=True)
    assert not file.is_at(PATH)
    assert not file.is_at(Path("/disk/nowhere/a"))


def test_what_is_read_as_a_whole_has_a_bound() -> None:
    disk = VirtualDisk(Random(1), Storage(small_file_size_bytes_max=5))
    disk.mkdir(Path("/d"))
    disk.open(Path("/d/small"), create=True).pwrite([b"12345"], 0)
    disk.open(Path("/d/large"), create=True).pwrite([b"123456"], 0)
    assert disk.read(Path("/d/small")) == b"12345"
    with pytest.raises(StorageError, match="is larger than what is read as a whole"):
        disk.read(Path("/d/large"))


@pytest.mark.parametrize(
    "misuse",
    [
        lambda file: file.pread(1, 0),
        lambda file: file.size(),
        lambda file: file.sync(),
        lambda file: file.is_at(PATH),
        lambda file: file.pwrite([b"x"], 0),
    ],
)
def test_a_closed_file_is_not_used(misuse: Callable[[object], object]) -> None:
    file = disk().open(PATH, create=True)
    file.close()
    file.close()
    with pytest.raises(AssertionError, match="after close"):
        misuse(file)


def test_a_file_that_was_opened_for_reading_is_not_written() -> None:
    made = disk()
    write_durably(made, b"data")
    with pytest.raises(AssertionError, match="opened for reading"):
        made.open(PATH).pwrite([b"x"], 0)
    with pytest.raises(AssertionError, match="opened for reading"):
        made.open(PATH).truncate(0)


@pytest.mark.parametrize(
    "change",
    [
        lambda made: made.open(PATH, write=True).truncate(0),
        lambda made: made.mkdir(DIRECTORY / "new"),
        lambda made: made.rename(PATH, DIRECTORY / "new"),
        lambda made: made.remove(PATH),
    ],
)
def test_any_change_may_fail_and_has_then_not_happened(change: Callable[[VirtualDisk], object]) -> None:
    """Source: POSIX, where each of these calls may fail with EIO; IRON File Systems (SOSP 2005)."""
    made = disk()
    write_durably(made, b"data")
    made.io_errors.plan(WRITE_ERROR, 0)
    with pytest.raises(StorageError, match="Input/output error"):
        change(made)
    assert made.listdir(DIRECTORY) == ["a"]
    assert made.read(PATH) == b"data"

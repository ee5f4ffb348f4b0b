"""The virtual disk never loses what was synced, can lose each kind of unsynced change, and fails as planned.

Each test states one behaviour. Sources: POSIX ``fsync``, ``rename``, ``open``, ``pwrite`` and ``unlink``; Linux
``fsync(2)``, which says that the entry of a new file needs a sync of its directory; Pillai et al., All File Systems Are
Not Created Equal (ALICE, OSDI 2014): no order between writes, and none between the entries of a directory; Rebello et
al., Can Applications Recover from fsync Failures? (USENIX ATC 2020); IRON File Systems (SOSP 2005).
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.errors import StorageError
from pykraft.log.fs import make_directory, write_atomically
from pykraft.sim.machine.disk import (
    DISK_FULL,
    PAGE_SIZE_BYTES,
    READ_ERROR,
    ROOT,
    SYNC_ERROR,
    WRITE_ERROR,
    DiskError,
    Interrupted,
    IoErrors,
    VirtualDisk,
)
from pykraft.sim.machine.inode import ALL_KEPT, EXTREMES, DrawnFate
from pykraft.sim.scenario.scenario import Storage
from tests.sim.machine.disks import DIRECTORY, PATH, SEEDS, disk, durably, fates, write, write_durably

steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 3 * PAGE_SIZE_BYTES), st.binary(min_size=1, max_size=300)),
        st.tuples(st.just("truncate"), st.integers(0, 3 * PAGE_SIZE_BYTES), st.just(b"")),
        st.tuples(st.just("sync"), st.just(0), st.just(b"")),
    ),
    max_size=12,
)


@given(steps, steps, st.integers(0, 2**16))
def test_what_was_synced_is_kept_wherever_it_was_not_touched_again(
    before: list[tuple[str, int, bytes]], after: list[tuple[str, int, bytes]], seed: int
) -> None:
    made = disk(seed)
    file = made.open(PATH, create=True)
    made.sync_dir(DIRECTORY)
    content = bytearray()
    touched: set[int] = set()
    size_bytes_min = 0
    for number, (what, position, data) in enumerate([*before, ("sync", 0, b""), *after]):
        if what == "sync":
            file.sync()
            touched.clear()
            size_bytes_min = len(content)
        elif what == "write":
            file.pwrite([data], position)
            content.extend(bytes(max(0, position - len(content))))
            content[position : position + len(data)] = data
            touched.update(range(position // PAGE_SIZE_BYTES, (position + len(data)) // PAGE_SIZE_BYTES + 1))
        else:
            file.truncate(position)
            low, high = sorted((position, len(content)))
            touched.update(range(low // PAGE_SIZE_BYTES, high // PAGE_SIZE_BYTES + 1))
            size_bytes_min = min(size_bytes_min, position)
            content = content[:position] + bytes(max(0, position - len(content)))
        assert made.read(PATH) == content, number
    made.lose_power()
    kept = made.read(PATH)
    assert len(kept) >= size_bytes_min
    for page in range(size_bytes_min // PAGE_SIZE_BYTES):
        if page not in touched:
            start = page * PAGE_SIZE_BYTES
            assert kept[start : start + PAGE_SIZE_BYTES] == content[start : start + PAGE_SIZE_BYTES]


@given(st.binary(max_size=3 * PAGE_SIZE_BYTES), st.integers(0, 2**16))
def test_a_file_that_was_synced_with_its_directory_survives_whole(data: bytes, seed: int) -> None:
    made = disk(seed)
    write_durably(made, data)
    for _ in range(3):
        made.lose_power()
        assert made.read(PATH) == data


@pytest.mark.conformance("H55")
def test_each_unsynced_page_is_kept_or_lost_on_its_own() -> None:
    old, new = b"o" * 2 * PAGE_SIZE_BYTES, b"n" * 2 * PAGE_SIZE_BYTES
    found = fates(durably(old), lambda made: write(made, new))
    halves = {(content or b"")[::PAGE_SIZE_BYTES] for content in found}
    assert halves == {b"oo", b"on", b"no", b"nn"}


def test_a_page_is_torn_at_any_byte() -> None:
    """No disk promises a size that it writes atomically (ALICE, OSDI 2014; NVMe AWUPF may be as small as one block)."""
    old, new = b"o" * PAGE_SIZE_BYTES, b"n" * PAGE_SIZE_BYTES
    found = fates(durably(old), lambda made: write(made, new))
    assert {old, new} < found
    assert all(content and content.count(b"no") + content.count(b"on") <= 1 for content in found)
    assert any(content and content.count(b"n") % 512 for content in found)


def test_a_page_may_be_as_it_was_at_any_time_since_the_last_sync() -> None:
    """The kernel writes dirty pages back whenever it likes (Linux dirty_writeback_centisecs)."""
    acts = [durably(b"0"), *(lambda made, data=data: write(made, data) for data in (b"1", b"2", b"3"))]
    assert fates(*acts) == {b"0", b"1", b"2", b"3"}


def test_a_size_may_be_as_it_was_at_any_time_since_the_last_sync() -> None:
    def cut_and_write(made: VirtualDisk) -> None:
        file = made.open(PATH, write=True)
        file.truncate(2)
        file.pwrite([b"nnnnnnnn"], 2)

    sizes = {len(content or b"") for content in fates(durably(b"o" * 10), cut_and_write)}
    assert {2, 10} < sizes


def test_an_unsynced_size_is_the_old_the_new_or_between() -> None:
    def grow(made: VirtualDisk) -> None:
        write_durably(made, b"o" * 100)
        write(made, b"n" * 900, position=100)

    sizes = {len(content or b"") for content in fates(grow)}
    assert {100, 1_000} < sizes
    assert all(100 <= size <= 1_000 for size in sizes)


def test_an_unsynced_truncation_may_come_back_in_part() -> None:
    def cut(made: VirtualDisk) -> None:
        write_durably(made, b"o" * 1_000)
        made.open(PATH, write=True).truncate(100)

    found = fates(cut)
    assert {100, 1_000} < {len(content or b"") for content in found}
    assert all(set(content or b"") <= set(b"o\0") for content in found)


def test_a_synced_file_without_a_synced_name_may_be_gone() -> None:
    def create(made: VirtualDisk) -> None:
        file = made.open(PATH, create=True)
        file.pwrite([b"data"], 0)
        file.sync()

    assert fates(create) == {None, b"data"}


def test_a_removal_may_not_have_happened() -> None:
    assert fates(durably(b"data"), lambda made: made.remove(PATH)) == {None, b"data"}


def test_changes_of_a_directory_survive_in_any_order() -> None:
    """A directory is several blocks, and a journal may be replayed without a later transaction (ALICE, OSDI 2014)."""
    names = [DIRECTORY / name for name in "abc"]
    found = set()
    for seed in SEEDS:
        made = disk(seed)
        for path in names:
            made.open(path, create=True)
        made.lose_power()
        found.add("".join(made.listdir(DIRECTORY)))
    assert found == {"", "a", "b", "c", "ab", "ac", "bc", "abc"}


def test_a_removed_file_that_is_back_has_lost_what_was_not_synced() -> None:
    def come_and_go(made: VirtualDisk) -> None:
        write(made, b"data")
        made.remove(PATH)

    assert {None, b"", b"\0\0\0\0", b"data"} <= fates(come_and_go)


def test_a_rename_shows_the_old_file_or_the_new() -> None:
    def replace(made: VirtualDisk) -> None:
        write_durably(made, b"old")
        temporary = DIRECTORY / "b"
        file = made.open(temporary, create=True)
        file.pwrite([b"new"], 0)
        file.sync()
        made.rename(temporary, PATH)

    assert fates(replace) == {b"old", b"new"}


@given(st.integers(0, 8), st.booleans(), st.integers(0, 2**16))
def test_an_atomic_write_is_atomic_wherever_it_is_interrupted(operations: int, loses_power: bool, seed: int) -> None:
    made = disk(seed)
    write_durably(made, b"old")
    made.interrupt_within(operations, loses_power=loses_power)
    is_done = False
    try:
        write_atomically(made, PATH, b"new" * 2_000)
        is_done = True
    except Interrupted as interruption:
        assert interruption.loses_power is loses_power
    made.let_be()
    made.lose_power()
    assert made.read(PATH) in ((b"new" * 2_000,) if is_done else (b"old", b"new" * 2_000))


def test_what_survived_one_power_loss_survives_the_next() -> None:
    for seed in SEEDS:
        made = disk(seed)
        write(made, bytes(range(256)) * 64)
        made.lose_power()
        before = made.read(PATH) if made.exists(PATH) else None
        made.lose_power()
        assert (made.read(PATH) if made.exists(PATH) else None) == before


@pytest.mark.parametrize("operations", range(4))
def test_a_directory_is_durable_once_a_start_has_made_sure_whatever_was_killed_before(operations: int) -> None:
    """A kill between creating a directory and the sync of its parent leaves one that a loss of power takes away."""
    for seed in range(20):
        disk = VirtualDisk(Random(seed))
        disk.interrupt_within(operations, loses_power=False)
        with suppress(Interrupted):
            make_directory(disk, DIRECTORY)
        disk.drop_handles()
        make_directory(disk, DIRECTORY)
        file = disk.open(DIRECTORY / "a", create=True)
        file.sync()
        disk.sync_dir(DIRECTORY)
        disk.lose_power()
        assert disk.listdir(DIRECTORY) == ["a"]


def test_a_directory_whose_parent_was_not_synced_may_go_with_all_that_is_in_it() -> None:
    left = set()
    for seed in range(20):
        disk = VirtualDisk(Random(seed))
        make_directory(disk, DIRECTORY.parent)
        disk.mkdir(DIRECTORY)
        disk.open(DIRECTORY / "a", create=True).sync()
        disk.sync_dir(DIRECTORY)
        disk.lose_power()
        left.add(disk.exists(DIRECTORY))
        disk.mkdir(DIRECTORY)
        assert disk.listdir(DIRECTORY) in ([], ["a"])
    assert left == {True, False}


def test_a_sync_that_is_repeated_after_it_failed_succeeds_and_writes_nothing() -> None:
    """Source: fsyncgate (PostgreSQL 2018); Rebello et al. (USENIX ATC 2020): ext4 and XFS mark the pages clean."""
    found = set()
    for seed in SEEDS:
        made = disk(seed)
        write_durably(made, b"old")
        file = made.open(PATH, write=True)
        file.pwrite([b"new"], 0)
        made.io_errors.plan(SYNC_ERROR, 0)
        with pytest.raises(StorageError):
            file.sync()
        made.io_errors.mend()
        file.sync()
        assert file.pread(3, 0) == b"new"
        made.lose_power()
        found.add(made.read(PATH))
    assert found == {b"old", b"new"}


def test_a_look_at_what_a_power_loss_would_leave_changes_nothing() -> None:
    made = disk()
    write_durably(made, b"old")
    write(made, b"new")
    write(made, b"more", path=DIRECTORY / "b")
    made.mkdir(DIRECTORY / "deep")
    expected: dict[str, object] = {
        "all lost": {"a": b"old"},
        "all kept": {"a": b"new", "b": b"more", "deep": None},
        "names only": {"a": b"old", "b": b"", "deep": None},
        "names and sizes": {"a": b"old", "b": b"\0\0\0\0", "deep": None},
        "bytes only": {"a": b"new"},
    }
    for fate in EXTREMES:
        left = made.left(fate)
        assert [left.pop(path) for path in (ROOT, DIRECTORY.parent, DIRECTORY)] == [None] * 3
        assert {path.name: content for path, content in left.items()} == expected[fate.name]
    made.left(DrawnFate(Random(1)))
    made.lose_power(ALL_KEPT)
    assert (made.read(PATH), made.read(DIRECTORY / "b"), made.exists(DIRECTORY / "deep")) == (b"new", b"more", True)


def test_a_file_may_survive_under_two_names() -> None:
    """A rename whose successor survived: the entries of a directory have no order."""
    found = set()
    for seed in SEEDS:
        made = disk(seed)
        write_durably(made, b"data")
        made.rename(PATH, DIRECTORY / "b")
        made.rename(DIRECTORY / "b", DIRECTORY / "c")
        made.lose_power()
        assert {made.read(DIRECTORY / name) for name in made.listdir(DIRECTORY)} == {b"data"}
        found.add("".join(made.listdir(DIRECTORY)))
    assert found == {"a", "b", "ac", "c"}


def test_a_copy_that_is_put_back_is_all_there_is_and_survives_a_power_loss() -> None:
    made = disk()
    write_durably(made, b"older")
    copy = made.left(ALL_KEPT)
    write_durably(made, b"newer and longer")
    write(made, b"unsynced")
    made.put_back(copy)
    made.lose_power(EXTREMES[0])
    assert made.left(ALL_KEPT) == copy
    assert made.read(PATH) == b"older"


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


FILE = Path("/disk/file")


def overwrite(io_errors: IoErrors) -> None:
    io_errors.before_write(FILE, is_growth=False)


def grow(io_errors: IoErrors) -> None:
    io_errors.before_write(FILE, is_growth=True)


def read(io_errors: IoErrors) -> None:
    io_errors.before_read(FILE)


def sync(io_errors: IoErrors) -> None:
    io_errors.before_sync(FILE)


ACTS = {READ_ERROR: read, WRITE_ERROR: overwrite, SYNC_ERROR: sync, DISK_FULL: grow}


def test_only_the_files_that_are_concerned_fail() -> None:
    io_errors = IoErrors()
    io_errors.plan(SYNC_ERROR, 0, concerns=lambda path: path.name == "other")
    sync(io_errors)
    assert io_errors.is_planned
    with pytest.raises(DiskError):
        io_errors.before_sync(Path("/disk/other"))
    io_errors.plan(SYNC_ERROR, 0)
    with pytest.raises(DiskError):
        sync(io_errors)
    io_errors.mend()
    io_errors.before_sync(Path("/disk/other"))
    assert not io_errors.is_planned


@pytest.mark.parametrize("kind", ACTS)
def test_operations_fail_after_those_that_may_succeed_until_the_disk_is_mended(kind: str) -> None:
    io_errors = IoErrors()
    seen: list[str] = []
    io_errors.on_error = seen.append
    io_errors.plan(kind, 2)
    for _ in range(2):
        ACTS[kind](io_errors)
    assert not seen
    for _ in range(3):
        with pytest.raises(DiskError, match=str(FILE)):
            ACTS[kind](io_errors)
    assert seen == [kind] * 3
    io_errors.mend()
    ACTS[kind](io_errors)


def test_other_operations_succeed() -> None:
    io_errors = IoErrors()
    io_errors.plan(DISK_FULL, 0)
    for act in (read, overwrite, sync):
        act(io_errors)
    with pytest.raises(DiskError, match="No space left"):
        grow(io_errors)


def test_a_stall_ends_when_the_disk_is_mended() -> None:
    io_errors = IoErrors()
    io_errors.stalled_until_us = 5
    io_errors.mend()
    assert io_errors.stalled_until_us == 0

"""The real file system: every call, the lock on a data directory, and errors that say what and where."""

import errno
import fcntl
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pykraft.errors import ReadError, StorageError
from pykraft.log import os_fs
from pykraft.log.fs import SMALL_FILE_SIZE_BYTES_MAX, File, Fs, Lock, make_directory
from pykraft.log.os_fs import PARTS_MAX, OsFs, holder_in

FS: Fs = OsFs()


def failing(code: int) -> Callable[..., Any]:
    """A system call that fails with this error."""

    def fail(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def test_directories_and_names(tmp_path: Path) -> None:
    deep = tmp_path / "x" / "y"
    make_directory(FS, deep)
    make_directory(FS, deep)
    assert FS.exists(deep)
    for name in ("b", "a", "c"):
        FS.open(deep / name, create=True).close()
    FS.rename(deep / "b", deep / "a")
    FS.remove(deep / "c")
    FS.sync_dir(deep)
    assert FS.listdir(deep) == ["a"]
    assert not FS.exists(deep / "b")


@pytest.mark.parametrize(
    "call",
    [
        FS.open,
        lambda path: FS.open(path, write=True),
        lambda path: FS.open(path / "below", create=True),
        FS.read,
        FS.listdir,
        FS.remove,
        lambda path: FS.rename(path, path.with_name("new")),
        FS.sync_dir,
        lambda path: FS.lock(path / ".lock"),
    ],
)
def test_what_is_not_there_is_a_storage_error(call: Callable[[Path], object], tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file or directory"):
        call(tmp_path / "absent")


def test_a_file_in_the_way_of_a_directory_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="file: is not a directory; name a directory"):
        FS.mkdir(tmp_path / "file")
    with pytest.raises(StorageError, match=r"Not a directory|is not a directory"):
        FS.mkdir(tmp_path / "file" / "deep")


def test_a_file_too_large_for_metadata_is_refused(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(SMALL_FILE_SIZE_BYTES_MAX + 1))
    with pytest.raises(StorageError, match="has more than 1048576 bytes"):
        FS.read(tmp_path / "large")


def test_a_file_that_may_be_missing_is_removed_if_it_is_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    FS.remove(path, missing_ok=True)
    FS.remove(path, missing_ok=True)
    with pytest.raises(StorageError, match="cannot remove"):
        FS.remove(path)


def javas_lock(path: Path) -> int:
    """Exit code of a program that takes the kind of lock that Java takes: 0 if it got it, else 3."""
    probe = (
        "import fcntl, sys\n"
        "file = open(sys.argv[1], 'r+')\n"
        "try:\n    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "except OSError:\n    sys.exit(3)\n"
    )
    return subprocess.run([sys.executable, "-c", probe, str(path)], check=False).returncode


def without_own_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a system that knows record locks of processes only."""
    monkeypatch.delattr(fcntl, "F_OFD_SETLK", raising=False)


def test_a_lock_is_held_once_and_given_up(tmp_path: Path) -> None:
    lock: Lock = FS.lock(tmp_path / ".lock")
    with pytest.raises(StorageError, match="this process already holds it"):
        FS.lock(tmp_path / ".lock")
    (tmp_path / "other").symlink_to(tmp_path)
    with pytest.raises(StorageError, match="this process already holds it"):
        FS.lock(tmp_path / "other" / ".lock")
    lock.release()
    lock.release()
    lock = FS.lock(tmp_path / ".lock")
    del lock
    FS.lock(tmp_path / ".lock").release()


@pytest.mark.parametrize("has_own_kind", [True, False])
def test_a_lock_is_seen_by_programs_that_take_javas_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_own_kind: bool
) -> None:
    if not has_own_kind:
        without_own_kind(monkeypatch)
    path = tmp_path / ".lock"
    lock = FS.lock(path)
    assert javas_lock(path) == 3
    lock.release()
    assert javas_lock(path) == 0


@pytest.mark.parametrize("has_own_kind", [True, False])
def test_a_refused_second_lock_of_this_process_leaves_java_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_own_kind: bool
) -> None:
    if not has_own_kind:
        without_own_kind(monkeypatch)
    path = tmp_path / ".lock"
    lock = FS.lock(path)
    with pytest.raises(StorageError, match="cannot lock"):
        FS.lock(path)
    assert javas_lock(path) == 3
    lock.release()


def test_whoever_copies_the_directory_within_this_process_leaves_java_out(tmp_path: Path) -> None:
    lock = FS.lock(tmp_path / ".lock")
    assert (tmp_path / ".lock").read_bytes() == b""
    assert javas_lock(tmp_path / ".lock") == 3
    lock.release()


def test_deleted_lock_file_is_noticed_and_frees_nothing(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    lock = FS.lock(path)
    assert lock.is_at_name()
    path.unlink()
    assert not lock.is_at_name()
    with pytest.raises(StorageError, match="this process already holds it"):
        FS.lock(path)
    again = f"from pathlib import Path\nfrom pykraft.log.os_fs import OsFs\nOsFs().lock(Path({str(path)!r}))"
    done = subprocess.run([sys.executable, "-c", again], capture_output=True, text=True, check=False)
    assert f"another process, pid {os.getpid()}, uses this directory" in done.stderr
    # The refused process has not made another lock file.
    assert not path.exists()
    path.touch()
    assert not lock.is_at_name()
    lock.release()
    FS.lock(path).release()


def test_file_system_that_locks_no_directories_has_the_lock_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NFS wants a descriptor that can write."""
    flock = fcntl.flock

    def as_on_nfs(descriptor: int, kind: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        flock(descriptor, kind)

    monkeypatch.setattr(fcntl, "flock", as_on_nfs)
    lock = FS.lock(tmp_path / ".lock")
    assert javas_lock(tmp_path / ".lock") == 3
    lock.release()


def test_a_lock_of_another_process_is_refused(tmp_path: Path) -> None:
    path = tmp_path / ".lock"
    holder = (
        "import fcntl, sys\n"
        "file = open(sys.argv[1], 'w')\n"
        "fcntl.lockf(file, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", holder, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(StorageError, match=rf"another process(, pid {process.pid},)? uses this directory; stop it"):
            FS.lock(path)
        process.communicate()
    FS.lock(path).release()


def test_the_process_that_holds_a_lock_is_found_in_the_kernels_list(tmp_path: Path) -> None:
    listing = tmp_path / "locks"
    listing.write_text(
        "1: OFDLCK ADVISORY  WRITE -1 08:01:77 0 EOF\n"
        "2: FLOCK  ADVISORY  WRITE 11 08:01:78 0 EOF\n"
        "3: FLOCK  ADVISORY  WRITE 0 08:01:77 0 EOF\n"
        "3: -> FLOCK ADVISORY WRITE 13 08:01:77 0 EOF\n"
        f"4: FLOCK  ADVISORY  WRITE {os.getpid()} 08:01:77 0 EOF\n"
        "5: FLOCK  ADVISORY  WRITE 12 08:01:77 0 EOF\n"
        "cut\n"
    )
    assert holder_in(listing, (os.makedev(8, 1), 77)) == 12
    assert holder_in(listing, (os.makedev(8, 1), 79)) is None
    assert holder_in(tmp_path / "none", (os.makedev(8, 1), 77)) is None


def test_a_file_system_without_locks_is_told_in_its_own_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "flock", failing(errno.ENOLCK))
    with pytest.raises(StorageError, match=r"cannot lock: No locks available$"):
        FS.lock(tmp_path / ".lock")


def test_bytes_are_written_and_read_by_position(tmp_path: Path) -> None:
    file: File = FS.open(tmp_path / "a", create=True)
    assert file.pwrite([b"abc", bytearray(b"de"), memoryview(b"f")], 2) == 6
    assert (file.pread(100, 0), file.pread(2, 3), file.pread(5, 8)) == (b"\0\0abcdef", b"bc", b"")
    file.truncate(4)
    assert (file.size(), file.pread(9, 0)) == (4, b"\0\0ab")
    file.truncate(6)
    file.sync()
    assert (tmp_path / "a").read_bytes() == b"\0\0ab\0\0"
    assert file.pwrite([], 3) == 0
    file.close()
    file.close()


def test_more_parts_than_one_call_takes(tmp_path: Path) -> None:
    file = FS.open(tmp_path / "a", create=True)
    parts = [b"%04d" % at for at in range(2 * PARTS_MAX + 5)]
    assert file.pwrite(parts, 0) == 4 * len(parts)
    assert FS.read(tmp_path / "a") == b"".join(parts)
    file.close()


def test_short_writes_and_reads_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = FS.open(tmp_path / "a", create=True)
    pwrite, pread = os.pwrite, os.pread
    monkeypatch.setattr(os, "pwritev", lambda descriptor, parts, at: pwrite(descriptor, parts[0][:1], at))
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, at: pwrite(descriptor, data[:2], at))
    monkeypatch.setattr(os, "pread", lambda descriptor, size, at: pread(descriptor, min(size, 3), at))
    assert file.pwrite([b"abcd", b"efgh"], 0) == 8
    assert file.pread(8, 0) == b"abcdefgh"
    assert file.pread(20, 4) == b"efgh"
    file.close()


def test_a_write_that_gets_nowhere_is_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = FS.open(tmp_path / "a", create=True)
    monkeypatch.setattr(os, "pwritev", lambda *_: 0)
    monkeypatch.setattr(os, "pwrite", lambda *_: 0)
    with pytest.raises(StorageError, match="a: cannot write at 0: No space left on device; free space on this disk"):
        file.pwrite([b"abc"], 0)
    file.close()


def test_a_dropped_file_is_closed_and_never_before(tmp_path: Path) -> None:
    file = OsFs().open(tmp_path / "a", create=True)
    descriptor = file.fileno()
    os.fstat(descriptor)
    del file
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


@pytest.mark.parametrize("method", ["pread", "size", "truncate", "sync"])
def test_a_closed_file_is_a_storage_error(method: str, tmp_path: Path) -> None:
    file = FS.open(tmp_path / "a", create=True)
    file.close()
    arguments = {"pread": (1, 0), "truncate": (1,)}.get(method, ())
    with pytest.raises(StorageError, match="a: cannot"):
        getattr(file, method)(*arguments)


def test_a_failing_sync_names_file_and_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = FS.open(tmp_path / "a", create=True)
    monkeypatch.setattr(os, "fdatasync", failing(errno.EIO))
    with pytest.raises(StorageError, match="a: cannot sync: Input/output error"):
        file.sync()
    file.close()


@pytest.mark.parametrize("code", [errno.EIO, errno.EBADMSG])
def test_what_the_disk_has_lost_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    file = FS.open(tmp_path / "file")
    monkeypatch.setattr(os, "pread", failing(code))
    with pytest.raises(ReadError, match=f"at position 1: expected 2 bytes, found .*{errno.errorcode[code]}"):
        file.pread(2, 1)


def test_a_read_that_fails_for_another_reason_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    file = FS.open(tmp_path / "file")
    monkeypatch.setattr(os, "pread", failing(errno.ESTALE))
    with pytest.raises(StorageError, match="cannot read 2 bytes at 1") as raised:
        file.pread(2, 1)
    assert not isinstance(raised.value, ReadError)


def test_a_file_that_was_deleted_cannot_be_made_durable(tmp_path: Path) -> None:
    """Two followers went on acknowledging records in directories that somebody had deleted."""
    file = FS.open(tmp_path / "a", create=True)
    file.pwrite([b"x"], 0)
    file.sync()
    (tmp_path / "a").unlink()
    file.pwrite([b"y"], 1)
    with pytest.raises(StorageError, match="a: is gone: somebody deleted it, or its directory"):
        file.sync()
    file.close()


def test_a_file_knows_whether_it_is_at_its_path(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "a"
    path.parent.mkdir()
    file = FS.open(path, create=True)
    assert file.is_at(path)
    (path.parent / "b").touch()
    assert not file.is_at(path.parent / "b")
    path.unlink()
    assert not file.is_at(path)
    path.parent.joinpath("b").unlink()
    path.parent.rmdir()
    assert not file.is_at(path)
    path.parent.touch()
    assert not file.is_at(path)
    file.close()
    path.parent.unlink()
    path.parent.mkdir()
    path.touch()
    with pytest.raises(StorageError, match="cannot look up"):
        file.is_at(path)


def test_reserved_space_does_not_change_the_size_and_is_given_back(tmp_path: Path) -> None:
    path = tmp_path / "a"
    file = FS.open(path, create=True)
    file.pwrite([b"abc"], 0)
    file.reserve(3, 1024 * 1024)
    assert path.read_bytes() == b"abc"
    if sys.platform.startswith("linux") and os.major(path.stat().st_dev):
        assert path.stat().st_blocks * 512 >= 1024 * 1024
    file.pwrite([b"def"], 3)
    file.unreserve()
    file.sync()
    assert path.read_bytes() == b"abcdef"
    assert path.stat().st_blocks * 512 < 1024 * 1024
    file.close()


@pytest.mark.parametrize("without", ["no Linux", "32 bits", "no such function", "no block device"])
def test_a_system_that_cannot_reserve_space_goes_without(
    without: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if without == "no Linux":
        monkeypatch.setattr(sys, "platform", "darwin")
    elif without == "32 bits":
        monkeypatch.setattr(sys, "maxsize", 2**31 - 1)
    elif without == "no block device":
        monkeypatch.setattr(os, "major", lambda _: 0)
    else:
        monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    os_fs._fallocate.cache_clear()
    try:
        file = FS.open(tmp_path / "a", create=True)
        file.reserve(0, 1024 * 1024)
        assert (tmp_path / "a").stat().st_blocks == 0
        file.close()
    finally:
        os_fs._fallocate.cache_clear()


def test_bytes_that_left_the_page_cache_are_read_from_the_disk(tmp_path: Path) -> None:
    file = FS.open(tmp_path / "a", create=True)
    file.pwrite([b"abc" * 5_000], 0)
    file.sync()
    file.uncache(0, 15_000)
    assert file.pread(15_000, 0) == b"abc" * 5_000
    file.close()


def test_hints_never_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = FS.open(tmp_path / "a", create=True)
    file.close()
    file.reserve(0, 10)
    file.uncache(0, 10)
    file.unreserve()
    monkeypatch.delattr(os, "posix_fadvise")
    file.uncache(0, 10)

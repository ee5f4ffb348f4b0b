"""One open file: bytes, syncs, hints, and errors that say what and where.

Source: POSIX ``pwritev``, ``fdatasync``; Linux man-page ``fallocate(2)``.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from pykraft.errors import ReadError, StorageError
from pykraft.log import os_file
from pykraft.log.fs import File, Fs
from pykraft.log.os_file import PARTS_MAX
from pykraft.log.os_fs import OsFs

FS: Fs = OsFs()


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
    def fail(_descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    file = FS.open(tmp_path / "a", create=True)
    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(StorageError, match="a: cannot sync: Input/output error"):
        file.sync()
    file.close()


@pytest.mark.parametrize(("code", "expected"), [(errno.EIO, ReadError), (errno.EBADMSG, ReadError)])
def test_what_the_disk_has_lost_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, expected: type[StorageError]
) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    file = FS.open(tmp_path / "file")

    def fail(*_: object) -> bytes:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "pread", fail)
    with pytest.raises(expected, match=f"at position 1: expected 2 bytes, found .*{errno.errorcode[code]}"):
        file.pread(2, 1)


def test_a_read_that_fails_for_another_reason_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    file = FS.open(tmp_path / "file")

    def fail(*_: object) -> bytes:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr(os, "pread", fail)
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
    os_file._fallocate.cache_clear()
    try:
        file = FS.open(tmp_path / "a", create=True)
        file.reserve(0, 1024 * 1024)
        assert (tmp_path / "a").stat().st_blocks == 0
        file.close()
    finally:
        os_file._fallocate.cache_clear()


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

"""The real file system: every call, and that no OSError escapes.

Source: POSIX ``pwritev``, ``fdatasync``, ``rename``; Linux man-pages ``flock(2)`` and ``fcntl_locking(2)``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pykraft.errors import StorageError
from pykraft.log.fs import SMALL_FILE_SIZE_BYTES_MAX, Fs, make_directory
from pykraft.log.os_fs import OsFs

FS: Fs = OsFs()


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

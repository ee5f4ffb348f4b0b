"""A shared folder on a disk; `tests.object_storage.test_sink` has the same calls in object storage."""

from pathlib import Path

import pytest

from pykraft.errors import StorageError
from pykraft.object_storage import shared_folder


def test_a_file_is_created_once_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "query" / "file"
    assert shared_folder.content(path) is None
    assert [shared_folder.create(path, content) for content in (b"one", b"two")] == [True, False]
    assert shared_folder.content(path) == b"one"
    shared_folder.replace(path, b"three")
    assert shared_folder.content(path) == b"three"
    assert shared_folder.entries(path.parent) == [path]
    for _ in range(2):
        shared_folder.remove(path)
    assert shared_folder.entries(path.parent) == []
    for _ in range(2):
        shared_folder.remove_folder(path.parent)
    assert shared_folder.entries(path.parent) == []


def test_a_file_that_cannot_be_read_is_not_taken_for_none(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match="folder"):
        shared_folder.content(tmp_path / "folder")

"""Replacing a small file leaves the old content or the new, whatever happens."""

import errno
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from pykraft.errors import StorageError
from pykraft.log.fs import make_directory, write_atomically
from pykraft.sim.machine.disk import Interrupted
from tests.disks import ScriptedDisk

PATH = Path("/data/file")


@pytest.mark.parametrize("last", range(8))
def test_a_crash_at_every_operation_leaves_one_of_both_contents(last: int) -> None:
    for seed in range(30):
        fs = ScriptedDisk()
        fs.write(PATH, b"old")
        fs.write(PATH.with_name("file.tmp"), b"left over from an earlier crash, and longer")
        fs.last_operation = last
        is_done = False
        with suppress(Interrupted):
            write_atomically(fs, PATH, b"new content")
            is_done = True
        fs.power_loss(Random(seed))
        assert fs.read(PATH) in ([b"new content"] if is_done else [b"old", b"new content"])


def test_a_failure_names_the_file_and_leaves_the_old_content() -> None:
    fs = ScriptedDisk()
    fs.write(PATH, b"old")
    fs.fail = lambda operation, _path: operation == "sync"
    with pytest.raises(StorageError, match=r"file\.tmp: cannot sync"):
        write_atomically(fs, PATH, b"new")
    assert fs.read(PATH) == b"old"


class Guarded(ScriptedDisk):
    """Directories whose parent this user may not open."""

    def sync_dir(self, path: Path) -> None:
        raise StorageError(path, "cannot sync the directory: Permission denied") from PermissionError(
            errno.EACCES, "Permission denied"
        )


def test_what_an_administrator_made_where_this_user_may_not_look_is_taken_as_it_is() -> None:
    fs = Guarded()
    fs.prepare(Path("/data"))
    with pytest.raises(StorageError, match="Permission denied"):
        make_directory(fs, Path("/data/raft"))
    make_directory(fs, Path("/data"))


def test_any_other_error_of_the_parent_counts() -> None:
    fs = ScriptedDisk()
    fs.prepare(Path("/data"))
    fs.fail = lambda operation, _path: operation == "sync_dir"
    with pytest.raises(StorageError, match="cannot sync_dir"):
        make_directory(fs, Path("/data"))

"""Replacing a small file leaves the old content or the new, whatever happens.

Names of files: Kafka's spelling and no other.

Source: POSIX ``rename``; Kafka's ``Utils.atomicMoveWithFallback``; Kafka's ``LogFileUtils``, ``Snapshots``; KIP-630.
"""

import errno
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from pykraft.errors import StorageError
from pykraft.log.fs import make_directory, write_atomically
from pykraft.log.paths import LOG, OFFSET_INDEX, leftover_kind, parse_checkpoint, parse_segment_file, segment_file
from pykraft.sim.machine.disk import Interrupted
from pykraft.types import Epoch, Offset, OffsetAndEpoch
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


def test_segment_files() -> None:
    assert segment_file(Offset(0), LOG) == "00000000000000000000.log"
    assert segment_file(Offset(2**63 - 1), OFFSET_INDEX) == "09223372036854775807.index"
    assert parse_segment_file("00000000000000000093.timeindex") == (93, ".timeindex")


@pytest.mark.parametrize(
    "name",
    [
        "93.log",
        "00000000000000000093.log.deleted",
        "00000000000000000093.snapshot",
        "x0000000000000000093.log",
        "09223372036854775808.log",
        "0000000000000000009\u0663.log",
        "00000000000000000093.log\n",
    ],
)
def test_other_names_are_no_segment_files(name: str) -> None:
    assert parse_segment_file(name) is None


def test_what_kafka_leaves_behind() -> None:
    assert leftover_kind("00000000000000000093.log.deleted") == "deleted"
    assert leftover_kind("00000000000000000093.snapshot.deleted") == "deleted"
    assert leftover_kind("00000000000000000093.timeindex.cleaned") == "cleaned"
    assert leftover_kind("00000000000000000093.log.swap") == "swap"
    assert leftover_kind("00000000000000000093.log") is None
    assert leftover_kind("00000000000000000093-0000000001.checkpoint.deleted") is None


def test_checkpoints() -> None:
    name = "00000000000000000093-0000000002.checkpoint"
    assert parse_checkpoint(name) == OffsetAndEpoch(Offset(93), Epoch(2))
    assert parse_checkpoint(name + ".part") is None
    assert parse_checkpoint("bootstrap.checkpoint") is None

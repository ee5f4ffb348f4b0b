"""A log with more segments than a process may open: it starts, serves and grows with a few descriptors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from threading import Event, Lock, Thread

import pytest

from pykraft.errors import ReadError, StorageError
from pykraft.log.log import Log
from pykraft.log.open_files import OpenFiles, SegmentFile
from pykraft.log.os_fs import OsFile, OsFs
from pykraft.types import Offset
from tests.log.logs import TOPIC_ID, AnySize, batch

TINY = AnySize(segment_size_bytes=1, index_size_bytes_max=24)
"""Each batch in a segment of its own."""
SEGMENTS = 1_000
PROGRAM = """
import resource, sys
from pathlib import Path
from tests.log.test_open_files import use
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
use(Path(sys.argv[1]))
"""


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def opened(directory: Path) -> Log:
    log, recovery = Log.open(OsFs(), directory, config=TINY, topic_id=TOPIC_ID)
    assert recovery.corrupt == ()
    return log


def use(directory: Path) -> None:
    """Open a log of many segments, read all, append, truncate, clean."""
    log = opened(directory)
    end_offset = log.end_offset
    for offset in range(end_offset):
        assert bytes(log.read(Offset(offset), 1)) == batch(offset)[1]
    for offset in range(end_offset, end_offset + 300):
        log.append([batch(offset)])
    assert log.views()[-1].end_offset == end_offset + 300
    log.flush()
    log.truncate_to(Offset(end_offset + 5))
    log.append([batch(end_offset + 5)])
    log.flush()
    log.close()


def test_a_log_of_a_thousand_segments_needs_few_descriptors(tmp_path: Path) -> None:
    log = opened(tmp_path)
    before = descriptors()
    for offset in range(SEGMENTS):
        log.append([batch(offset)])
        if offset % 50 == 0:
            log.flush()
    log.close()
    assert descriptors() <= before
    assert len(log.views()) == SEGMENTS
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    root = Path(__file__).parents[2]
    finished = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr


def test_the_file_that_was_not_used_for_longest_is_closed(tmp_path: Path) -> None:
    files = OpenFiles(OsFs(), count_max=2)
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        files.create(path)
    first = files.get(paths[1])
    files.get(paths[0])
    assert files.get(paths[1]) is first
    files.get(paths[2])
    files.get(paths[0])
    assert files.get(paths[1]) is not first
    before = descriptors()
    del first
    for _ in range(3):
        for path in paths:
            assert files.get(path).size() == 0
    assert descriptors() <= before


def test_a_file_with_unsynced_writes_stays_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[OsFile] = []
    monkeypatch.setattr(OsFile, "sync", lambda self: synced.append(self))  # noqa: PLW0108 - a builtin is no method
    files = OpenFiles(OsFs(), count_max=1)
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        files.create(path)
    one = SegmentFile(files, paths[0])
    one.pwrite([b"abc"], 0)
    held = one._held
    assert held is not None
    files.get(paths[1])
    one.sync()
    assert one._held is held
    assert len(synced) == 1
    assert synced[0] is held, "a descriptor that was opened later might not hear of a failed write"
    one.release()
    assert one._held is None
    assert one.pread(3, 0) == b"abc"
    one.close()
    assert held.size() == 3, "who still refers to it reads on"


def test_a_file_that_is_gone_is_damaged_and_one_that_cannot_be_opened_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs = OsFs()
    files = OpenFiles(fs)
    with pytest.raises(ReadError, match="no such file"):
        files.get(tmp_path / "gone")
    (tmp_path / "there").touch()

    def refuse(path: Path, **_: bool) -> None:
        raise StorageError(path, "cannot open: Too many open files")

    monkeypatch.setattr(fs, "open", refuse)
    with pytest.raises(StorageError, match="Too many open files") as raised:
        files.get(tmp_path / "there")
    assert not isinstance(raised.value, ReadError)


class SlowFs(OsFs):
    """Opens a file, and goes on when another thread has replaced it by a new one, or has removed it and waits."""

    def __init__(self) -> None:
        self.files: OpenFiles | None = None
        self.remover: Thread | None = None
        self._lock = Lock()
        self._is_asked_for = Event()

    def mutex(self) -> SlowFs:
        return self

    def __enter__(self) -> None:
        self._is_asked_for.set()
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def open(self, path: Path, *, create: bool = False, write: bool = False) -> OsFile:
        file = super().open(path, create=create, write=write)
        if self.files is not None and self.remover is None:
            self._is_asked_for.clear()
            self.remover = Thread(target=self._remove, args=(self.files, path))
            self.remover.start()
            self._is_asked_for.wait()
        return file

    def _remove(self, files: OpenFiles, path: Path) -> None:
        self.remove(path)
        files.forget(path)
        files.create(path)
        self._is_asked_for.set()


def test_a_late_reader_does_not_put_a_removed_file_back_under_its_name(tmp_path: Path) -> None:
    fs = SlowFs()
    files = OpenFiles(fs)
    path = tmp_path / "a"
    path.write_bytes(b"old")
    fs.files = files
    assert files.get(path).pread(3, 0) == b"old"
    assert fs.remover is not None
    fs.remover.join()
    assert files.get(path).size() == 0


def test_a_file_knows_whether_it_is_at_its_path_also_when_it_is_not_open(tmp_path: Path) -> None:
    files, path = OpenFiles(OsFs()), tmp_path / "a"
    files.create(path)
    file = SegmentFile(files, path)
    assert file.is_at(path)
    path.unlink()
    assert not file.is_at(path)
    files.forget(path)
    assert not file.is_at(path)


def test_hints_reach_the_file(tmp_path: Path) -> None:
    file = SegmentFile(OpenFiles(OsFs()), tmp_path / "a")
    OpenFiles(OsFs()).create(tmp_path / "a")
    file.pwrite([b"abc"], 0)
    file.reserve(3, 1024 * 1024)
    reserved = (tmp_path / "a").stat().st_blocks
    file.sync()
    file.uncache(0, 3)
    file.unreserve()
    assert (tmp_path / "a").stat().st_blocks <= reserved
    assert file.pread(9, 0) == b"abc"
    file.close()

"""A log file stays within its size, and the descriptors follow the current file."""

import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykraft.errors import UsageError
from pykraft.server.log_file import LogFile

LINE = "x" * 99
"""100 bytes with its line feed."""


@pytest.fixture
def descriptor() -> Iterator[int]:
    """Stands for standard error."""
    opened = os.open(os.devnull, os.O_WRONLY)
    yield opened
    os.close(opened)


def log_of(path: Path, *descriptors: int, files_max: int = 3) -> LogFile:
    return LogFile(path, size_bytes_max=1_000, files_max=files_max, descriptors=descriptors)


def write(log: LogFile, lines: int) -> None:
    for _ in range(lines):
        log.handle(logging.makeLogRecord({"msg": LINE, "levelno": logging.INFO, "levelname": "INFO"}))


def test_the_oldest_lines_go(tmp_path: Path) -> None:
    log = log_of(tmp_path / "node.log")
    write(log, 100)
    log.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["node.log", "node.log.1", "node.log.2"]
    assert all(each.stat().st_size <= 1_000 for each in tmp_path.iterdir())


def test_one_former_file_is_kept_at_least(tmp_path: Path) -> None:
    log = log_of(tmp_path / "node.log", files_max=1)
    write(log, 100)
    log.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["node.log", "node.log.1"]


def test_what_others_print_goes_to_the_current_file_and_counts(tmp_path: Path, descriptor: int) -> None:
    (tmp_path / "node.log").write_text("before\n")
    log = log_of(tmp_path / "node.log", descriptor)
    os.write(descriptor, b"a warning of the C runtime\n" * 40)
    write(log, 1)
    os.write(descriptor, b"the next one\n")
    log.close()
    assert (tmp_path / "node.log").read_text() == f"{LINE}\nthe next one\n"
    assert (tmp_path / "node.log.1").read_text().startswith("before\na warning")


def test_a_file_that_cannot_be_renamed_grows_on(tmp_path: Path, descriptor: int) -> None:
    (tmp_path / "node.log.1").mkdir()
    (tmp_path / "node.log.1" / "x").touch()
    log = log_of(tmp_path / "node.log", descriptor, files_max=2)
    write(log, 30)
    assert (tmp_path / "node.log").stat().st_size == 3_000
    shutil.rmtree(tmp_path / "node.log.1")
    write(log, 1)
    log.close()
    assert (tmp_path / "node.log").stat().st_size == 100


def test_a_line_that_cannot_be_written_is_dropped(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = log_of(tmp_path / "node.log")
    assert log.stream is not None
    log.stream.close()
    write(log, 1)
    assert capfd.readouterr() == ("", "")


def test_a_folder_that_is_missing_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--log-file .*/absent/node\.log: No such file or directory: name a file in"):
        log_of(tmp_path / "absent" / "node.log")

"""Each failure is one line that says what failed and where; a full disk is named as the cause."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lab.demo.failures import NO_SPACE, ended, failed
from pykraft.errors import LocalQuorumError, StorageError

FOLDER = Path("/demo")


def process(log: str) -> Any:
    return SimpleNamespace(name="node 2", status=3, log=lambda: log)


def test_what_failed_is_told_with_its_reason() -> None:
    error = failed(FOLDER, "the stream", "[STREAM_FAILED] it ended\n  at Java")
    assert isinstance(error, LocalQuorumError)
    assert str(error) == "the stream cannot continue: [STREAM_FAILED] it ended"


def test_a_full_disk_is_told_with_its_folder() -> None:
    error = failed(FOLDER, "the stream", f"Traceback\nOSError: [Errno 28] {NO_SPACE}\n  at Java")
    assert isinstance(error, StorageError)
    assert str(error) == "/demo: the disk is full, so the stream cannot continue; free space, or use --data DIR"


def test_a_process_that_ended_is_told_with_what_it_said_last() -> None:
    error = ended(FOLDER, process("12:00 INFO it serves\npykraft: one\npykraft: the port is taken\n"))
    assert str(error) == "node 2 ended on its own with status 3: the port is taken"
    assert str(ended(FOLDER, process("Killed"))) == "node 2 ended on its own with status 3"


def test_a_process_that_had_no_room_is_a_full_disk() -> None:
    error = ended(FOLDER, process(f"pykraft: /demo/n2/data: {NO_SPACE}\n"))
    assert isinstance(error, StorageError)
    assert str(error).startswith("/demo: the disk is full, so node 2 cannot continue")

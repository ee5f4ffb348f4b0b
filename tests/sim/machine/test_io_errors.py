"""A disk fails as planned until it is repaired, and reports when it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.sim.machine.io_errors import DISK_FULL, READ_ERROR, SYNC_ERROR, WRITE_ERROR, DiskError, IoErrors

PATH = Path("/disk/file")


def write(io_errors: IoErrors) -> None:
    io_errors.before_write(PATH, is_growth=False)


def grow(io_errors: IoErrors) -> None:
    io_errors.before_write(PATH, is_growth=True)


def read(io_errors: IoErrors) -> None:
    io_errors.before_read(PATH)


def sync(io_errors: IoErrors) -> None:
    io_errors.before_sync(PATH)


ACTS = {READ_ERROR: read, WRITE_ERROR: write, SYNC_ERROR: sync, DISK_FULL: grow}


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
        with pytest.raises(DiskError, match=str(PATH)):
            ACTS[kind](io_errors)
    assert seen == [kind] * 3
    io_errors.mend()
    ACTS[kind](io_errors)


def test_other_operations_succeed() -> None:
    io_errors = IoErrors()
    io_errors.plan(DISK_FULL, 0)
    for act in (read, write, sync):
        act(io_errors)
    with pytest.raises(DiskError, match="No space left"):
        grow(io_errors)


def test_a_stall_ends_when_the_disk_is_mended() -> None:
    io_errors = IoErrors()
    io_errors.stalled_until_us = 5
    io_errors.mend()
    assert io_errors.stalled_until_us == 0

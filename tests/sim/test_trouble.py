"""A disk fails as planned, until it is mended, and tells when it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.sim.trouble import DISK_FULL, READ_ERROR, SYNC_ERROR, WRITE_ERROR, DiskError, Trouble

PATH = Path("/disk/file")


def write(trouble: Trouble) -> None:
    trouble.before_write(PATH, is_growth=False)


def grow(trouble: Trouble) -> None:
    trouble.before_write(PATH, is_growth=True)


def read(trouble: Trouble) -> None:
    trouble.before_read(PATH)


def sync(trouble: Trouble) -> None:
    trouble.before_sync(PATH)


ACTS = {READ_ERROR: read, WRITE_ERROR: write, SYNC_ERROR: sync, DISK_FULL: grow}


def test_only_the_files_that_are_concerned_fail() -> None:
    trouble = Trouble()
    trouble.plan(SYNC_ERROR, 0, concerns=lambda path: path.name == "other")
    sync(trouble)
    assert trouble.is_planned
    with pytest.raises(DiskError):
        trouble.before_sync(Path("/disk/other"))
    trouble.plan(SYNC_ERROR, 0)
    with pytest.raises(DiskError):
        sync(trouble)
    trouble.mend()
    trouble.before_sync(Path("/disk/other"))
    assert not trouble.is_planned


@pytest.mark.parametrize("kind", ACTS)
def test_operations_fail_after_those_that_may_succeed_until_the_disk_is_mended(kind: str) -> None:
    trouble = Trouble()
    seen: list[str] = []
    trouble.on_error = seen.append
    trouble.plan(kind, 2)
    for _ in range(2):
        ACTS[kind](trouble)
    assert not seen
    for _ in range(3):
        with pytest.raises(DiskError, match=str(PATH)):
            ACTS[kind](trouble)
    assert seen == [kind] * 3
    trouble.mend()
    ACTS[kind](trouble)


def test_other_operations_succeed() -> None:
    trouble = Trouble()
    trouble.plan(DISK_FULL, 0)
    for act in (read, write, sync):
        act(trouble)
    with pytest.raises(DiskError, match="No space left"):
        grow(trouble)


def test_a_stall_ends_when_the_disk_is_mended() -> None:
    trouble = Trouble()
    trouble.stalled_until_us = 5
    trouble.mend()
    assert trouble.stalled_until_us == 0

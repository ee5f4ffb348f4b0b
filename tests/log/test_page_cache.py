"""Which bytes of a log leave the page cache: the oldest, only synced ones, a bounded number at a time.

Source: PostgreSQL's ``XLogFileClose``; ``posix_fadvise(2)``.
"""

from __future__ import annotations

import pytest

from pykraft.log import page_cache
from pykraft.log.log import Log
from pykraft.sim.machine.disk import VirtualFile
from pykraft.types import Offset
from tests.disks import ScriptedDisk
from tests.log.logs import ONE, SMALL, batch, open_log, run_of

BATCH_SIZE_BYTES = len(batch(0)[1])
STEP_SIZE_BYTES = 2 * BATCH_SIZE_BYTES
KEPT_SIZE_BYTES = 10 * BATCH_SIZE_BYTES


@pytest.fixture
def uncached(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, int]]:
    """Name of the file, position and size in batches of everything that leaves the page cache."""
    found: list[tuple[str, int, int]] = []

    def note(file: VirtualFile, position: int, size_bytes: int) -> None:
        found.append((file._path.name, position // BATCH_SIZE_BYTES, size_bytes // BATCH_SIZE_BYTES))

    monkeypatch.setattr(VirtualFile, "uncache", note)
    monkeypatch.setattr(page_cache, "CACHED_SIZE_BYTES_MAX", KEPT_SIZE_BYTES)
    monkeypatch.setattr(page_cache, "STEP_SIZE_BYTES", STEP_SIZE_BYTES)
    return found


def grow(log: Log, count: int) -> None:
    log.append(run_of(log.end_offset, count))
    log.flush()
    log.relieve()


def test_the_newest_bytes_stay_and_older_ones_leave_step_by_step(uncached: list[tuple[str, int, int]]) -> None:
    log, _ = open_log(ScriptedDisk(), ONE)
    grow(log, 11)
    assert uncached == []
    grow(log, 1)
    name = f"{0:020d}.log"
    assert uncached == [(name, 0, 2)]
    grow(log, 5)
    assert uncached == [(name, 0, 2), (name, 2, 2), (name, 4, 2)]


def test_a_turn_gives_back_a_bounded_number_of_bytes(uncached: list[tuple[str, int, int]]) -> None:
    log, _ = open_log(ScriptedDisk(), ONE)
    grow(log, 40)
    assert len(uncached) == page_cache.STEPS_MAX
    grow(log, 1)
    assert len(uncached) == 2 * page_cache.STEPS_MAX


def test_it_goes_on_across_segments(uncached: list[tuple[str, int, int]]) -> None:
    log, _ = open_log(ScriptedDisk(), SMALL)
    for _ in range(100):
        grow(log, 1)
    sizes = {f"{view.base_offset:020d}.log": view.size_bytes // BATCH_SIZE_BYTES for view in log.views()}
    left: dict[str, int] = dict.fromkeys(sizes, 0)
    for name, position, size in uncached:
        assert position == left[name]
        left[name] += size
    total = sum(left.values())
    assert 100 - 10 - 2 < total <= 100 - 10
    gone = [name for name in sizes if left[name] == sizes[name]]
    assert gone == list(sizes)[: len(gone)]
    assert len(gone) >= 2


def test_after_a_truncation_only_what_is_written_later_counts(uncached: list[tuple[str, int, int]]) -> None:
    log, _ = open_log(ScriptedDisk(), SMALL)
    grow(log, 60)
    uncached.clear()
    log.truncate_to(Offset(3))
    log.relieve()
    grow(log, 3)
    assert uncached == []


@pytest.mark.parametrize("begins_anew", [False, True])
def test_removed_segments_are_not_touched(uncached: list[tuple[str, int, int]], *, begins_anew: bool) -> None:
    log, _ = open_log(ScriptedDisk(), SMALL)
    for _ in range(60):
        grow(log, 1)
    uncached.clear()
    if begins_anew:
        log.begin_anew_at(Offset(100))
    else:
        log.delete_before(Offset(50))
    first = log.views()[0].base_offset
    log.relieve()
    for _ in range(60):
        grow(log, 1)
    assert uncached
    assert all(name >= f"{first:020d}" for name, _, _ in uncached)

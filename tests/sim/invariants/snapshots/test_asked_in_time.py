"""An application that is not asked for a snapshot in time is found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.snapshots.asked_in_time import LATE_US, SaveIsAskedInTime
from pykraft.types import Epoch, Offset, OffsetAndEpoch, ReportKind
from tests.sim.invariants.fakes import batch, node, report, view, world


def told(high_watermark: int = 2, *, is_asked: bool = True) -> tuple[Any, Any, SaveIsAskedInTime]:
    where = world()
    where.history.asked_node_ids = {1} if is_asked else set()
    saver = node(1, high_watermark=high_watermark)
    saver.config.log = SimpleNamespace(snapshot_record_bytes_max=100)
    made = SaveIsAskedInTime(where)
    made.started(saver)
    made.delivered(saver, [batch(0, b"a")])
    made.delivered(saver, [batch(1, b"b")])
    return where, saver, made


def look(where: Any, saver: Any, made: SaveIsAskedInTime) -> None:
    where.clock.now_us += LATE_US + 1
    made.after_event(saver, view())


def test_who_is_asked_or_given_a_snapshot_is_content_and_who_asks_itself() -> None:
    where, saver, made = told()
    made.reported(saver, report())
    made.reported(saver, report(ReportKind.SNAPSHOT_DUE, 2))
    look(where, saver, made)
    where, saver, made = told()
    made.loaded(saver, OffsetAndEpoch(Offset(2), Epoch(1)))
    look(where, saver, made)
    look(*told(is_asked=False))
    SaveIsAskedInTime(world()).after_event(node(1), view())


def test_what_is_committed_is_given_first() -> None:
    look(*told(high_watermark=3))


def test_what_a_host_no_longer_reports_as_committed_is_given_first_all_the_same() -> None:
    where, saver, made = told(high_watermark=0)
    made.reported(saver, report(ReportKind.SNAPSHOT_DUE, 2))
    made.after_event(saver, view(high_watermark=5))
    for offset in (2, 3):
        made.delivered(saver, [batch(offset, b"c")])
    look(where, saver, made)
    made.delivered(saver, [batch(4, b"c")])
    with pytest.raises(ViolationError, match="has not asked"):
        look(where, saver, made)


def test_who_is_not_asked_is_found() -> None:
    with pytest.raises(ViolationError, match="bytes to its application, where 100 are enough, and has not asked"):
        look(*told())

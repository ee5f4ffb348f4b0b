"""A log that starts where no snapshot ends is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.snapshots.log_start import LogStartIsSnapshot
from pykraft.types import Epoch, Offset, OffsetAndEpoch
from tests.sim.invariants.fakes import BEFORE, node, view, world


def ids(*offsets: int) -> tuple[OffsetAndEpoch, ...]:
    return tuple(OffsetAndEpoch(Offset(offset), Epoch(1)) for offset in offsets)


def test_logs_from_the_beginning_or_from_a_snapshot_on_are_accepted() -> None:
    made = LogStartIsSnapshot(world())
    made.started(node(log_start_offset=0))
    made.changed(node(), BEFORE, view(snapshots=ids(5)))
    made.changed(node(), BEFORE, view(log_start_offset=5, snapshots=ids(5, 9)))
    made.facts.snapshots[1] = ids(5)  # type: ignore[attr-defined]
    made.started(node(log_start_offset=3))
    made.changed(node(), BEFORE, view(log_start_offset=3, snapshots=ids(5)))


def test_a_log_without_its_beginning_is_found_at_its_start() -> None:
    with pytest.raises(ViolationError, match="starts at 3, without a snapshot"):
        LogStartIsSnapshot(world()).started(node(log_start_offset=3))


@pytest.mark.parametrize("snapshots", [(), ids(4), ids(6)])
def test_a_log_that_begins_elsewhere_is_found(snapshots: tuple[OffsetAndEpoch, ...]) -> None:
    made = LogStartIsSnapshot(world())
    made.changed(node(), view(log_start_offset=5, snapshots=snapshots), view(log_start_offset=5, snapshots=snapshots))
    with pytest.raises(ViolationError, match="starts at 5"):
        made.changed(node(), BEFORE, view(log_start_offset=5, snapshots=snapshots))

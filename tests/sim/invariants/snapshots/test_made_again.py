"""A node that takes no snapshots after one could not be written is found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.snapshots.made_again import SnapshotsAreMadeAgain
from pykraft.types import ReportKind
from tests.sim.invariants.fakes import batch, node, report, snapshot_id, view, world


class Failing:
    """Node 1 takes a snapshot of its own after every 10 to 20 records, and has just failed to write one."""

    def __init__(self) -> None:
        self.facts: Any = world()
        self.facts.records_between = 10
        self.facts.history.asked_node_ids = set()
        self.facts.clock.now_us = 0
        log = SimpleNamespace(snapshots=())
        self.node = node(raft=SimpleNamespace(log=log))
        self.node.disk.io_errors = SimpleNamespace(is_planned=False, stalled_until_us=0)
        self.oracle = SnapshotsAreMadeAgain(self.facts)
        self.oracle.started(self.node)
        self.fail()

    def fail(self) -> None:
        self.oracle.reported(self.node, report(ReportKind.SNAPSHOT_NOT_WRITTEN))

    def go_on(self, end_offset: int, *, after_ms: int = 1_000, **seen: Any) -> None:
        """Time passes, and the application is given records up to this offset."""
        self.facts.clock.now_us += after_ms * 1_000
        self.oracle.delivered(self.node, [batch(end_offset - 1)])
        self.oracle.after_event(self.node, view(**seen))


def test_no_snapshot_for_long_after_a_failure_is_found() -> None:
    made = Failing()
    made.go_on(5)
    for end_offset in range(10, 90, 5):
        made.go_on(end_offset)
    with pytest.raises(ViolationError, match="has had room from offset 5 on; it is at 90, and has written none"):
        made.go_on(90)


def test_many_records_at_once_and_many_in_a_moment_give_it_one_attempt() -> None:
    made = Failing()
    made.go_on(5)
    made.go_on(900)
    for end_offset in range(905, 1_000, 5):
        made.go_on(end_offset, after_ms=0)


def test_a_new_snapshot_ends_it() -> None:
    made = Failing()
    made.go_on(5)
    made.go_on(86, snapshots=(snapshot_id(20),))
    made.go_on(900)


def test_records_during_a_pause_or_without_room_do_not_count() -> None:
    made = Failing()
    made.fail()
    made.go_on(5)
    made.go_on(600, after_ms=100)
    made.node.disk.io_errors.is_planned = True
    made.go_on(1_200)
    made.node.disk.io_errors.is_planned = False
    made.go_on(1_800)
    made.go_on(1_850)


def test_a_loaded_snapshot_takes_it_further_without_records() -> None:
    made = Failing()
    made.go_on(5)
    made.oracle.loaded(made.node, snapshot_id(500))
    made.oracle.after_event(made.node, view())
    made.go_on(550)


def test_who_is_asked_by_the_host_and_who_starts_anew_is_not_judged() -> None:
    made = Failing()
    made.oracle.started(made.node)
    made.go_on(5)
    made.go_on(900)
    made.facts.history.asked_node_ids.add(1)
    made.fail()
    made.go_on(950)
    made.go_on(1_900)

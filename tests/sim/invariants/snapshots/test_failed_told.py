"""A process that found no room for a snapshot and raises no alarm is noticed at the end."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.sim.facts.facts import Claims
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.snapshots.failed_told import METRIC, FailedSnapshotsAreTold
from pykraft.types import ReportKind
from tests.sim.invariants.fakes import node, report, world


def made(counted: int = 1) -> FailedSnapshotsAreTold:
    facts: Any = world()
    facts.claims = Claims()
    facts.claims.snapshotless_ids.add(1)
    facts.nodes = {1: node(epoch=1)}
    facts.nodes[1].host.metrics = lambda now: {METRIC: counted}
    return FailedSnapshotsAreTold(facts)


def test_silence_is_noticed() -> None:
    oracle = made()
    oracle.reported(node(), report())
    with pytest.raises(ViolationError, match="node 1 had no room for a snapshot, and raises no alarm"):
        oracle.ended()


def test_an_alarm_passes() -> None:
    oracle = made()
    oracle.reported(node(), report(ReportKind.SNAPSHOT_NOT_WRITTEN))
    oracle.ended()


def test_an_alarm_that_is_not_counted_is_noticed() -> None:
    oracle = made(counted=0)
    oracle.reported(node(), report(ReportKind.SNAPSHOT_NOT_WRITTEN))
    with pytest.raises(ViolationError, match=f"node 1 says that snapshots failed, and its {METRIC} is 0"):
        oracle.ended()


def test_a_process_that_ended_is_not_judged() -> None:
    oracle = made()
    oracle.started(node())
    oracle.ended()

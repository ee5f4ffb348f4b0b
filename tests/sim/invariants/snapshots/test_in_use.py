"""A snapshot that is removed while it is fetched is found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.snapshots.in_use import SnapshotInUseStays
from pykraft.sim.machine.spoken import SliceAsked, Spoken
from tests.sim.invariants.fakes import deletes_before, node, snapshot_id, truncates, world

PATIENCE_MS = 100


class Fetching:
    """Node 2 fetches the snapshot 7 from node 1, slice by slice."""

    def __init__(self) -> None:
        self.world = world()
        self.oracle = SnapshotInUseStays(self.world)
        self.server, self.asker = self.made(1), self.made(2)

    def made(self, node_id: int) -> Any:
        each: Any = node(node_id)
        each.config.log = SimpleNamespace(clean_interval_ms=20)
        each.config.raft = SimpleNamespace(fetch_timeout_ms=PATIENCE_MS)
        each.disk.io_errors = SimpleNamespace(stalled_until_us=0)
        return each

    def asks(self, until_ms: int, *, every_ms: int = 40) -> None:
        for ms in range(1, until_ms, every_ms):
            self.world.clock.now_us = ms * 1_000
            sliced = SliceAsked(snapshot_id=snapshot_id(7), position=ms)
            self.oracle.before_send(self.asker, Spoken(epoch=1, sliced=sliced, target_id=1))

    def goes(self, at_ms: int, *, offset: int = 9, who: Any = None) -> None:
        self.world.clock.now_us = at_ms * 1_000
        self.oracle.submitted(who or self.server, deletes_before(offset))


def test_what_is_fetched_for_several_periods_stays() -> None:
    made = Fetching()
    made.asks(1_000)
    with pytest.raises(ViolationError, match="which node 2 has been fetching"):
        made.goes(1_000)


@pytest.mark.parametrize("what", ["new", "over", "slow", "later", "another", "paused", "stalled", "not asked", "cut"])
def test_what_may_go(what: str) -> None:
    made = Fetching()
    made.asks(300 if what == "new" else 1_000, every_ms=60 if what == "slow" else 40)
    if what == "paused":
        made.server.was_paused_since = lambda _: True
    elif what == "stalled":
        made.server.disk.io_errors.stalled_until_us = 500_000
    elif what == "not asked":
        made = Fetching()
        made.oracle.before_send(made.asker, Spoken(epoch=1, target_id=1))
    elif what == "cut":
        made.oracle.submitted(made.server, truncates(3))
        return
    who = made.made(3) if what == "another" else None
    made.goes(1_200 if what == "over" else 1_000, offset=7 if what == "later" else 9, who=who)

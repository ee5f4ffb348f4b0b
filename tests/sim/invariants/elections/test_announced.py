"""A leader that does not try to reach a silent voter is found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.core.leader.progress import ReplicaProgress
from pykraft.core.state import Leader
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.elections.announced import SilentVotersAreTold
from pykraft.sim.machine.spoken import Spoken
from tests.sim.invariants.fakes import node, view, world

BOUND_US = 2_000_000


def leading(ms: int, *, fetched_ms: int | None = None) -> Any:
    """Node 1 leads 2 and 3, of which 3 fetches all the time."""
    voters = {
        node_id: ReplicaProgress(key=node(node_id).key, fetched_mono_ms=heard_ms)
        for node_id, heard_ms in ((1, None), (2, fetched_ms), (3, ms))
    }
    state = object.__new__(Leader)
    state.progress = SimpleNamespace(voters=voters)  # type: ignore[assignment]
    made = node(1, ms=ms, role="leader", raft=SimpleNamespace(state=state))
    made.disk.io_errors = SimpleNamespace(stalled_until_us=0)
    return made


def begun() -> tuple[Any, SilentVotersAreTold]:
    where = world()
    made = SilentVotersAreTold(where)
    made.changed(node(1), view(), view("leader"))
    return where, made


def look(where: Any, made: SilentVotersAreTold, ms: int, **known: Any) -> None:
    where.clock.now_us = ms * 1_000
    made.after_event(leading(ms, **known), view("leader"))


def test_a_leader_that_dials_or_asks_again_is_accepted_and_one_that_is_heard() -> None:
    where, made = begun()
    look(where, made, 1_000)
    made.dialed(node(1), 2)
    look(where, made, 2_500)
    where.clock.now_us = 2_500_000
    made.before_send(node(1), Spoken(epoch=1, target_id=2))
    made.before_send(node(1), Spoken(epoch=1))
    look(where, made, 4_400)
    look(where, made, 6_000, fetched_ms=5_000)


def test_nobody_else_has_to() -> None:
    where, made = begun()
    where.clock.now_us = 9_000_000
    made.after_event(leading(9_000), view("follower"))


def test_one_that_was_paused_or_waits_for_its_disk_has_time() -> None:
    where, made = begun()
    where.clock.now_us = 9_000_000
    stalled = leading(9_000)
    stalled.disk.io_errors.stalled_until_us = 8_000_000
    made.after_event(stalled, view("leader"))


def test_one_that_has_told_a_silent_voter_only_once_is_found() -> None:
    where, made = begun()
    made.dialed(node(1), 2)
    look(where, made, BOUND_US // 1_000)
    with pytest.raises(ViolationError, match="leader 1 of epoch 1 has not tried to reach voter 2 for 2000 ms"):
        look(where, made, BOUND_US // 1_000 + 100)

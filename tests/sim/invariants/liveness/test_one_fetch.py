"""A second Fetch to the leader is found while the first one is outstanding."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.core.effects import EnterQuarantine
from pykraft.core.quarantine import Quarantine
from pykraft.host.ports import ConnectionId
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.liveness.one_fetch import OneFetchInFlight
from pykraft.sim.machine.spoken import LogEnd, Spoken
from pykraft.types import Epoch, Io, Offset
from tests.sim.invariants.fakes import BEFORE, appends, node, view, world

FETCH = Spoken(epoch=1, fetched=LogEnd(epoch=1, offset=7), target_id=2)


def fetched(made: OneFetchInFlight, at: Any, spoken: Spoken = FETCH) -> None:
    made.before_send(at, spoken)
    at.process.wiretap.open_fetches[ConnectionId(1)] = made.facts.clock.now_us


def test_a_second_one_is_found() -> None:
    made, follower = OneFetchInFlight(world()), node(leader_id=2)
    fetched(made, follower)
    made.facts.clock.now_us = 1_000
    with pytest.raises(ViolationError, match="fetches at 7 and waits for another answer still"):
        made.before_send(follower, FETCH)


def test_one_after_the_answer_after_the_pause_or_in_another_state_is_accepted() -> None:
    made, follower = OneFetchInFlight(world()), node(leader_id=2)
    fetched(made, follower)
    follower.process.wiretap.open_fetches.clear()
    fetched(made, follower)
    made.facts.clock.now_us = 500_000
    fetched(made, follower)
    made.changed(follower, BEFORE, view(epoch=2))
    fetched(made, follower)


def test_one_of_a_log_that_is_damaged_now_is_forgotten() -> None:
    made, follower = OneFetchInFlight(world()), node(leader_id=2)
    note = Quarantine(epoch=Epoch(1), until_offset=None, damages=(), is_cut=False)
    fetched(made, follower)
    made.submitted(follower, appends())
    made.submitted(follower, EnterQuarantine(io=Io(2), quarantine=note, end_offset=Offset(0)))
    fetched(made, follower)


def test_questions_to_others_do_not_count() -> None:
    made, follower = OneFetchInFlight(world()), node(leader_id=2)
    for spoken in (Spoken(epoch=1), Spoken(epoch=1, fetched=LogEnd(epoch=1, offset=7), target_id=3)):
        fetched(made, follower, spoken)
        fetched(made, follower, spoken)

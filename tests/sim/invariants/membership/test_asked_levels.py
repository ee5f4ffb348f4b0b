"""A leader that adds a voter, and asks it nothing, is found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.core.leader.voter_change import Addition
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.membership.asked_levels import NewVotersAreAsked
from pykraft.types import Offset
from tests.core.replicas import leader
from tests.sim.invariants.fakes import keyed, node, view, world


def adding(*, is_ready: bool, offset: int | None = None) -> Any:
    """A leader that adds voter 4."""
    (voter,) = keyed(4).voters
    state = leader()
    state.change = Addition(
        request_id=1,
        voter=voter,
        ack_when_committed=True,
        deadline_ms=1_000,
        offset=None if offset is None else Offset(offset),
    )
    connections = SimpleNamespace(is_ready=lambda peer_id: is_ready and peer_id == 4)
    return node(1, role="leader", raft=SimpleNamespace(state=state, connections=connections))


def test_an_addition_that_asks_nothing_is_found() -> None:
    with pytest.raises(ViolationError, match="leader 1 adds voter 4, and asks it nothing"):
        NewVotersAreAsked(world()).after_event(adding(is_ready=True), view("leader"))


def test_a_request_under_way_is_accepted_also_when_it_fails_later() -> None:
    made, found = NewVotersAreAsked(world()), adding(is_ready=False)
    made.after_event(found, view("leader"))
    found.host.raft.connections.is_ready = lambda peer_id: True
    made.after_event(found, view("leader"))


def test_what_is_in_the_log_was_asked_before() -> None:
    NewVotersAreAsked(world()).after_event(adding(is_ready=True, offset=7), view("leader"))

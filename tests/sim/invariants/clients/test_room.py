"""An append that is rejected for a full buffer although there is room is found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.core.state import Follower, Leader
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.clients.room import RoomIsUsed
from tests.sim.invariants.fakes import node, operation, world


def decided(waiting: int, *, is_leader: bool = True, is_prepared: bool = False, lacked_room: bool = True) -> None:
    state: Any = object.__new__(Leader if is_leader else Follower)
    if is_leader:
        state.accumulation = SimpleNamespace(waiting_count=waiting)
    where = world()
    where.nodes = {1: node(1, raft=SimpleNamespace(state=state))}
    asked = operation(1, is_prepared=is_prepared)
    asked.lacked_room = lacked_room
    RoomIsUsed(where).decided(asked)


def test_a_full_buffer_is_a_reason_and_one_batch_may_be_gone_since() -> None:
    decided(10)
    decided(9)


def test_other_answers_and_what_is_only_prepared_are_no_matter() -> None:
    decided(0, lacked_room=False)
    decided(0, is_prepared=True)
    decided(0, is_leader=False)


def test_a_buffer_with_room_is_no_reason() -> None:
    with pytest.raises(ViolationError, match="no room for operation 1, and 8 batches in a buffer of 10"):
        decided(8)

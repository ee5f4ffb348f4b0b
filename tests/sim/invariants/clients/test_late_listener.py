"""A listener that begins late, and is not told who leads, is found."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.clients.late_listener import LateListenersHearWhoLeads
from tests.sim.invariants.fakes import node, world


def oracle(told: tuple[int, int | None] | None, role: str = "follower") -> LateListenersHearWhoLeads:
    """It watches one node of epoch 2, led by node 3, that tells new listeners this."""
    found = node(1, role=role, epoch=2, leader_id=3)

    def register(listener: Any, _from_offset: int) -> None:
        if told is not None:
            listener.on_leader_change(*told)

    found.host.register = register
    made = world()
    made.nodes = {1: found}
    return LateListenersHearWhoLeads(made)


def test_who_is_told_the_leader_of_the_moment_is_accepted() -> None:
    oracle((2, 3)).ended()


@pytest.mark.parametrize("told", [None, (2, None), (1, 3)])
def test_silence_and_older_news_are_found(told: tuple[int, int | None] | None) -> None:
    with pytest.raises(ViolationError, match=r"a new listener of node 1 is told .*, and node 3 leads epoch 2"):
        oracle(told).ended()


def test_only_followers_have_to_know() -> None:
    oracle(None, role="unattached").ended()

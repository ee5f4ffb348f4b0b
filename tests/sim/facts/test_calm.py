"""A calm begins when nothing prevents progress, and ends with any fault."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.sim.facts.calm import LOOK_US, Calm, transfer_us
from pykraft.sim.scenario.scenario import DEFAULT, QuorumSettings, Scenario, Work
from tests.sim.invariants.fakes import node, voters_of, world


def calm_world(voters: int = 3) -> Any:
    made = world(voters)
    made.faults = SimpleNamespace(counts=Counter())
    made.network = SimpleNamespace(is_usual=True, byte_us=0)
    made.members.in_force = lambda: [voters_of(voters)]
    made.nodes = {}
    for voter in voters_of(voters).voters:
        each: Any = node(int(voter.key.id), role="follower")
        each.process.is_paused = False
        each.disk.io_errors = SimpleNamespace(stalled_until_us=0)
        each.config.advertised_listeners = voter.listeners
        made.nodes[int(voter.key.id)] = each
    return made


def lasts_us(calm: Calm, where: Any, now_us: int) -> int:
    where.clock.now_us = now_us
    return calm.lasts_us()


def test_a_calm_lasts_from_the_first_look_on() -> None:
    where = calm_world()
    calm = Calm(where)
    assert [lasts_us(calm, where, at) for at in (100, 400)] == [0, 300]
    where.counts["kill"] += 1
    assert [lasts_us(calm, where, at) for at in (500, 600, 700)] == [0, 0, 100]
    where.counts["log cleaned"] += 1
    assert lasts_us(calm, where, 800) == 200, "that is no fault"


@pytest.mark.parametrize("what", ["down", "paused", "damaged", "stalled", "replaced", "moved"])
def test_a_majority_of_each_set_is_enough(what: str) -> None:
    where = calm_world()
    calm = Calm(where)
    lasts_us(calm, where, 1)
    for node_id, expected_us in ((1, 9), (2, 0)):
        each = where.nodes[node_id]
        if what == "down":
            each.process = None
        elif what == "paused":
            each.process.is_paused = True
        elif what == "damaged":
            each.is_damaged = True
        elif what == "stalled":
            each.disk.io_errors.stalled_until_us = 99
        elif what == "moved":
            each.config.advertised_listeners = ()
        else:
            each.key = node(9).key
        assert lasts_us(calm, where, 10) == expected_us


def test_slow_links_are_no_calm() -> None:
    where = calm_world()
    calm = Calm(where)
    lasts_us(calm, where, 1)
    where.network.is_usual = False
    assert lasts_us(calm, where, 10) == 0


def test_it_looks_every_now_and_then() -> None:
    where = calm_world()
    calm = Calm(where)
    found = []
    for at in (0, 1, LOOK_US - 1, LOOK_US):
        where.clock.now_us = at
        found.append(calm.is_due())
    assert found == [True, False, False, True]


def test_links_take_time_for_the_largest_thing_that_is_sent() -> None:
    assert transfer_us(DEFAULT, 0) == 0
    quorum = QuorumSettings(fetch_size_bytes_max=(10, 5_000))
    small = Scenario(quorum=quorum, work=Work(values_max=1, value_size_bytes_max=10))
    assert transfer_us(small, 2) == 4 * 5_000 * 2
    assert (
        transfer_us(Scenario(quorum=quorum, work=Work(values_max=2, proposals_max=10, value_size_bytes_max=900)), 2)
        == 4 * 20_000 * 2
    )

"""A connection closed because of its messages is found, unless a disk was lost or lied."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.core.effects import Report
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.liveness.blameless import NobodyIsBlamed
from pykraft.types import ReportKind
from tests.sim.invariants.fakes import node, report, world

PEER = report(ReportKind.PEER_CLOSED, 2)
LEADER = report(ReportKind.LEADER_GIVEN_UP, 2)
CALLER = report(ReportKind.REQUESTER_CLOSED, 7)


def of(*nodes: Any) -> NobodyIsBlamed:
    made = world()
    made.nodes = {each.node_id: each for each in nodes}
    return NobodyIsBlamed(made)


@pytest.mark.parametrize("blame", [PEER, CALLER, LEADER])
def test_blame_is_noticed(blame: Report) -> None:
    with pytest.raises(ViolationError, match=f"node 1 says: {blame.text}"):
        of(node(1), node(2)).reported(node(1), blame)


def test_a_closed_visit_and_any_other_report_blame_nobody() -> None:
    of(node(1)).reported(node(1), report(ReportKind.REQUESTER_CLOSED, -3))
    of(node(1)).reported(node(1), report(ReportKind.QUARANTINE_OVER, 10))


def test_who_lost_its_disk_may_wonder_and_nobody_else() -> None:
    made = of(node(1), node(2), node(3))
    made.wiped(node(1))
    made.lost(node(2))
    made.reported(node(1), PEER)
    made.reported(node(2), PEER)
    with pytest.raises(ViolationError):
        made.reported(node(3), PEER)


def test_who_finds_its_disk_empty_knows_it_and_blames_nobody() -> None:
    made = of(node(1), node(2))
    made.emptied(node(1))
    with pytest.raises(ViolationError):
        made.reported(node(1), PEER)


def test_while_a_disk_lies_anything_may_be_said() -> None:
    of(node(1), node(2, is_rotten=True)).reported(node(1), PEER)

"""A leader that feeds a twin in silence is noticed; an alarm of this epoch and this voter is enough."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.membership.twins_told import TwinsAreTold
from pykraft.types import ReportKind
from tests.sim.invariants.fakes import node, report, view, world


def told(oracle: TwinsAreTold, epoch: int, voter_id: int) -> None:
    raft = SimpleNamespace(state=SimpleNamespace(epoch=epoch))
    oracle.reported(node(1, role="leader", raft=raft), report(ReportKind.TWIN, voter_id))


def test_silence_is_noticed() -> None:
    oracle = TwinsAreTold(world())
    oracle.after_event(node(1), view())
    told(oracle, 4, 2)
    oracle.reported(node(1), report())
    oracle.facts.claims.fed_twins.add((1, 5, 2))
    with pytest.raises(ViolationError, match="node 1, the leader of epoch 5, has sent records to a second process"):
        oracle.after_event(node(1), view())


def test_an_alarm_is_enough() -> None:
    oracle = TwinsAreTold(world())
    told(oracle, 5, 2)
    oracle.facts.claims.fed_twins.add((1, 5, 2))
    oracle.after_event(node(1), view())

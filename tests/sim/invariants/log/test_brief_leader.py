"""A voter that never leads is found when it writes more than LeaderChange, stays, or hands over to the wrong voter."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.core.state import Leader
from pykraft.log.lane import AppendBytes
from pykraft.protocol.batch import read_header
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.log.brief_leader import BriefLeaderHandsOver
from pykraft.types import Io, Offset, ReportKind
from tests.core.replicas import leader, resigned
from tests.sim.invariants.fakes import encoded, node, report, view, world

LEADS, RESIGNED = view("leader"), view("resigned")


def made(state: Any, *, never_leads: bool = True, end_offset: int = 10) -> Any:
    raft = SimpleNamespace(state=state, log=SimpleNamespace(end_offset=end_offset))
    found = node(1, role="leader", raft=raft)
    found.config = SimpleNamespace(raft=replace(found.config.raft, never_leads=never_leads))
    found.ledger = SimpleNamespace(end_offset=end_offset)
    return found


def job(data: bytes) -> AppendBytes:
    return AppendBytes(io=Io(1), batches=[(read_header(data), data)])


def with_end(end_offset: int) -> Leader:
    state = leader()
    state.progress.voters[state.progress.voters[min(state.progress.voters)].key.id].end_offset = Offset(10)
    state.progress.voters[max(state.progress.voters)].end_offset = Offset(end_offset)
    return state


def test_it_may_write_its_leader_change_only() -> None:
    oracle = BriefLeaderHandsOver(world())
    oracle.submitted(made(leader()), job(encoded(3)))
    oracle.submitted(made(leader(), never_leads=False), job(encoded(3, b"value")))
    with pytest.raises(ViolationError, match="appends proposals at 3 in epoch 1"):
        oracle.submitted(made(leader()), job(encoded(3, b"value")))


def test_it_goes_when_another_voter_has_its_log() -> None:
    oracle = BriefLeaderHandsOver(world())
    for accepted in (made(with_end(9)), made(with_end(10), never_leads=False), made(resigned())):
        oracle.after_event(accepted, LEADS)
    with pytest.raises(ViolationError, match="leads on in epoch 1"):
        oracle.after_event(made(with_end(10)), LEADS)


def test_it_names_a_voter_with_its_log_first() -> None:
    where = world()
    oracle = BriefLeaderHandsOver(where)
    where.nodes = {3: SimpleNamespace(node_id=3, ledger=SimpleNamespace(end_offset=10))}
    oracle.changed(made(resigned()), LEADS, RESIGNED)
    oracle.reported(made(resigned()), report(ReportKind.HANDED_OVER, 1, 2))
    oracle.changed(made(resigned()), LEADS, RESIGNED)
    oracle.reported(made(resigned()), report(ReportKind.HANDED_OVER, 1, 2))
    with pytest.raises(ViolationError, match="hands 11 records over to node 3, which has 10"):
        oracle.changed(made(resigned(), end_offset=11), LEADS, RESIGNED)
    oracle.reported(made(resigned()), report(ReportKind.HANDED_OVER, 1, 2))
    oracle.changed(made(leader()), LEADS, LEADS)

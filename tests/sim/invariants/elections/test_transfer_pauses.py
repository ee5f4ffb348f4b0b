"""A leader that pauses for a transfer in vain, or too often, is found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.core.leader.progress import Progress
from pykraft.core.state import Leader
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.elections.transfer_pauses import TransferPausesAreShort
from pykraft.types import NodeId, ReportKind
from tests.sim.invariants.fakes import node, report, voters_of, world

BEGINS = report(ReportKind.TRANSFER_BEGUN, 2)
FAILS = report(ReportKind.TRANSFER_FAILED, 2)


def leader(ms: int, *, fetched_ms: int | None = None, begun_ms: int = 0) -> Any:
    """A leader since ``begun_ms`` that node 2 has fetched from at ``fetched_ms``."""
    state = Leader.__new__(Leader)
    state.progress, state.begun_ms = Progress(voters_of(3)), begun_ms
    state.progress.voters[NodeId(2)].fetched_mono_ms = fetched_ms
    return node(1, ms=ms, raft=SimpleNamespace(state=state))


@pytest.mark.parametrize(
    "at", [leader(499), leader(1_400, fetched_ms=901), leader(1_400, begun_ms=901), node(1, raft=None)]
)
def test_a_target_that_was_heard_or_could_not_be_may_be_waited_for(at: Any) -> None:
    TransferPausesAreShort(world()).reported(at, BEGINS)


@pytest.mark.parametrize("at", [leader(1_400), leader(1_400, fetched_ms=900)])
def test_one_that_has_been_silent_for_long_may_not(at: Any) -> None:
    with pytest.raises(ViolationError, match="leader 1 begins a transfer to node 2, which has been silent for"):
        TransferPausesAreShort(world()).reported(at, BEGINS)


def test_after_one_that_failed_a_leader_rests() -> None:
    made = TransferPausesAreShort(world())

    def at(ms: int) -> Any:
        return leader(ms, fetched_ms=ms)

    made.reported(at(100), BEGINS)
    made.reported(at(150), report())
    made.reported(at(200), FAILS)
    with pytest.raises(ViolationError, match="1 ms too soon"):
        made.reported(at(1_099), BEGINS)
    made.reported(at(1_100), BEGINS)
    made.reported(at(1_200), FAILS)
    made.started(at(1_300))
    made.reported(at(1_300), FAILS)
    made.reported(at(1_300), BEGINS)

"""A log that is shorter after a restart than its node acknowledged is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.disks.durable_stays import AcknowledgedSurvivesRestart
from pykraft.sim.machine.ledger import Ledger
from pykraft.sim.machine.spoken import LogEnd, Spoken
from tests.sim.invariants.fakes import appends, node, snapshot_id, truncates, world


def told(offset: int) -> AcknowledgedSurvivesRestart:
    made = AcknowledgedSurvivesRestart(world())
    made.before_send(node(), Spoken(epoch=1))
    made.before_send(node(), Spoken(epoch=1, fetched=LogEnd(epoch=1, offset=offset)))
    return made


def test_what_was_told_is_there_or_was_cut_or_is_known_to_be_damaged() -> None:
    told(5).started(node(log_end_offset=5))
    told(5).started(node(2, log_end_offset=0))
    told(5).started(node(log_end_offset=3, is_damaged=True))
    made = told(5)
    made.submitted(node(), truncates(3))
    made.submitted(node(), appends())
    made.started(node(log_end_offset=3))


def test_a_shorter_log_is_found() -> None:
    with pytest.raises(ViolationError, match="had told that it holds 5, it begins at 4"):
        told(5).started(node(log_end_offset=4))


def test_what_a_lying_or_an_exchanged_disk_took_is_forgiven() -> None:
    for forgive in (AcknowledgedSurvivesRestart.lost, AcknowledgedSurvivesRestart.wiped):
        made = told(5)
        forgive(made, node(2))
        with pytest.raises(ViolationError):
            made.started(node(log_end_offset=0))
        forgive(made, node())
        made.started(node(log_end_offset=0))


def test_a_snapshot_of_a_later_epoch_may_be_shorter() -> None:
    made = told(5)
    made.facts.ledgers[1] = Ledger(begin=snapshot_id(4, epoch=2))  # type: ignore[attr-defined]
    made.started(node(log_end_offset=4))

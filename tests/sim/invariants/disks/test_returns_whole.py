"""A damaged node that leaves quarantine without its former records is found."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.core.effects import EnterQuarantine, LeaveQuarantine
from pykraft.core.quarantine import Quarantine
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.disks.returns_whole import DamagedReturnsWhole
from pykraft.sim.machine.ledger import Ledger
from pykraft.types import Epoch, Io, Offset, OffsetAndEpoch
from tests.sim.invariants.fakes import appends, entry, node, world

NOTE = Quarantine(epoch=Epoch(1), until_offset=None, damages=(), is_cut=False)
FOUND, MENDED = EnterQuarantine(io=Io(1), quarantine=NOTE, end_offset=Offset(0)), LeaveQuarantine(io=Io(2))
HELD = [entry(offset) for offset in range(5)]


def damaged(held: int = 2) -> Any:
    return node(1, is_damaged=True, log_end_offset=held)


def whole(held: int = 2) -> Any:
    return node(1, log_end_offset=held)


@pytest.fixture
def where() -> Any:
    """Node 1 held five batches and lost all but two; four of them are committed."""
    made = world()
    made.held[1] = list(HELD)
    made.committed = Ledger(HELD[:4])
    made.ledgers[1] = Ledger(HELD[:2])
    return made


@pytest.fixture
def made(where: Any) -> DamagedReturnsWhole:
    return DamagedReturnsWhole(where)


def test_what_was_fetched_again_is_enough(made: DamagedReturnsWhole, where: Any) -> None:
    made.submitted(whole(), appends())
    made.submitted(damaged(), FOUND)
    where.ledgers[1] = Ledger([*HELD[:4], entry(4, epoch=2)])
    made.submitted(whole(), MENDED)
    where.ledgers[1] = Ledger()
    made.started(whole())


def test_what_was_replaced_before_it_was_committed_is_owed_to_nobody(made: DamagedReturnsWhole, where: Any) -> None:
    made.submitted(damaged(), FOUND)
    where.committed = where.ledgers[1] = Ledger([*HELD[:2], entry(2, epoch=2)])
    made.submitted(whole(), MENDED)


def test_a_snapshot_stands_for_what_it_holds(made: DamagedReturnsWhole, where: Any) -> None:
    made.submitted(damaged(), FOUND)
    where.ledgers[1] = Ledger(begin=OffsetAndEpoch(Offset(4), Epoch(1)))
    made.submitted(whole(), MENDED)
    where.held[1] = []
    made.submitted(damaged(), FOUND)
    where.held[1] = list(HELD)
    made.submitted(damaged(), FOUND)
    where.ledgers[1] = Ledger(begin=OffsetAndEpoch(Offset(3), Epoch(1)))
    with pytest.raises(ViolationError, match="from 3 to 4"):
        made.submitted(whole(), MENDED)


def test_what_a_snapshot_took_the_place_of_is_not_owed(made: DamagedReturnsWhole, where: Any) -> None:
    where.held[1] = HELD[3:]
    made.submitted(damaged(), FOUND)
    made.submitted(whole(), MENDED)


def test_a_node_that_leaves_quarantine_too_early_is_found(made: DamagedReturnsWhole, where: Any) -> None:
    made.started(damaged())
    where.ledgers[1] = Ledger(HELD[:3])
    with pytest.raises(ViolationError, match="ends at 3, and had held what is committed from 3 to 4 in epoch 1"):
        made.submitted(whole(), MENDED)


def test_a_node_that_forgets_its_damage_is_found(made: DamagedReturnsWhole, where: Any) -> None:
    made.submitted(damaged(), FOUND)
    where.held[1] = HELD[:2]
    made.persisted(whole())
    made.started(damaged())
    with pytest.raises(ViolationError, match="node 1 is out of quarantine with a log that ends at 2"):
        made.started(whole())


def test_a_lie_of_the_disk_is_forgiven_until_the_damage_is_noted(made: DamagedReturnsWhole) -> None:
    made.submitted(damaged(), FOUND)
    made.lost(whole())
    made.started(whole())
    made.submitted(damaged(), FOUND)
    made.persisted(damaged())
    made.lost(whole())
    with pytest.raises(ViolationError):
        made.started(whole())


def test_a_wiped_node_owes_nothing(made: DamagedReturnsWhole) -> None:
    made.started(damaged())
    made.wiped(whole())
    made.lost(whole())
    made.started(whole())

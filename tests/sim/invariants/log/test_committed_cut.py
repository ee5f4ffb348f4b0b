"""A truncation of committed records is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.log.committed_cut import CommittedIsNeverCut
from pykraft.sim.machine.ledger import Ledger
from tests.sim.invariants.fakes import appends, begins_anew, encoded, entry, node, truncates, world


def cut(offset: int) -> None:
    where = world()
    where.committed = Ledger([entry(0), entry(1)])
    where.ledgers[1] = Ledger([entry(0), entry(1), entry(2), entry(3)])
    made = CommittedIsNeverCut(where)
    made.submitted(node(1), appends(encoded(4, b"a")))
    made.submitted(node(1), truncates(offset))


@pytest.mark.parametrize("offset", [2, 3, 9])
def test_what_is_not_committed_may_be_cut(offset: int) -> None:
    cut(offset)


def test_other_records_at_committed_offsets_may_be_cut() -> None:
    where = world()
    where.committed, where.ledgers[1] = Ledger([entry(0, epoch=2)]), Ledger([entry(0, epoch=1)])
    CommittedIsNeverCut(where).submitted(node(1), truncates(0))


@pytest.mark.parametrize("offset", [0, 1])
def test_what_is_committed_may_not(offset: int) -> None:
    with pytest.raises(
        ViolationError, match=f"cuts its log to {offset}, and with it the committed batch at 1 of epoch 1"
    ):
        cut(offset)


def test_a_snapshot_takes_the_place_of_what_it_holds_and_of_no_more() -> None:
    where = world()
    where.committed, where.ledgers[1] = Ledger([entry(0), entry(1)]), Ledger([entry(0), entry(1), entry(2)])
    made = CommittedIsNeverCut(where)
    made.submitted(node(1), begins_anew(2))
    with pytest.raises(ViolationError, match="cuts its log to 1"):
        made.submitted(node(1), begins_anew(1))

"""A truncation of committed records is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.log.committed_cut import CommittedIsNeverCut
from pykraft.sim.machine.ledger import Ledger
from tests.sim.invariants.fakes import BEFORE, appends, begins_anew, encoded, entry, node, truncates, view, world


def cut(offset: int) -> None:
    where = world()
    where.committed = Ledger([entry(0), entry(1)])
    where.ledgers[1] = Ledger([entry(0), entry(1), entry(2), entry(3)])
    made = CommittedIsNeverCut(where)
    made.submitted(node(1, epoch=1), appends(encoded(4, b"a")))
    made.submitted(node(1, epoch=1), truncates(offset))


@pytest.mark.parametrize("offset", [2, 3, 9])
def test_what_is_not_committed_may_be_cut(offset: int) -> None:
    cut(offset)


def test_other_records_at_committed_offsets_may_be_cut() -> None:
    where = world()
    where.committed, where.ledgers[1] = Ledger([entry(0, epoch=2)]), Ledger([entry(0, epoch=1)])
    CommittedIsNeverCut(where).submitted(node(1, epoch=1), truncates(0))


@pytest.mark.parametrize("offset", [0, 1])
def test_what_is_committed_may_not(offset: int) -> None:
    with pytest.raises(
        ViolationError, match=f"cuts its log to {offset}, and with it the committed batch at 1 of epoch 1"
    ):
        cut(offset)


@pytest.mark.parametrize(("is_damaged", "is_rotten"), [(True, True), (True, False), (False, True)])
def test_a_replica_in_quarantine_whose_epochs_have_rotted_fetches_them_again(
    *, is_damaged: bool, is_rotten: bool
) -> None:
    where = world()
    where.committed, where.ledgers[1] = Ledger([entry(0)]), Ledger([entry(0)])
    rotten = node(1, epoch=1, is_damaged=is_damaged, is_rotten=is_rotten)
    if is_damaged and is_rotten:
        CommittedIsNeverCut(where).submitted(rotten, truncates(0))
    else:
        with pytest.raises(ViolationError, match="cuts its log to 0"):
            CommittedIsNeverCut(where).submitted(rotten, truncates(0))


@pytest.mark.parametrize(("epoch", "is_found"), [(3, False), (4, True), (5, True)])
def test_the_leader_of_an_older_epoch_may_not_know_of_a_commit(epoch: int, is_found: bool) -> None:
    where = world()
    where.committed = Ledger([entry(0, epoch=2), entry(1, epoch=2), entry(2, epoch=4)])
    where.ledgers[6] = Ledger([entry(0, epoch=2), entry(1, epoch=2)])
    made = CommittedIsNeverCut(where)
    for leader_epoch, high_watermark in ((2, 1), (4, 3)):
        now = view("leader", leader_epoch, high_watermark=high_watermark)
        made.changed(node(4), BEFORE, now)
    if is_found:
        with pytest.raises(ViolationError, match="cuts its log to 1"):
            made.submitted(node(6, epoch=epoch), truncates(1))
    else:
        made.submitted(node(6, epoch=epoch), truncates(1))
        with pytest.raises(ViolationError, match="cuts its log to 0"):
            made.submitted(node(6, epoch=epoch), truncates(0))


def test_a_snapshot_takes_the_place_of_what_it_holds_and_of_no_more() -> None:
    where = world()
    where.committed, where.ledgers[1] = Ledger([entry(0), entry(1)]), Ledger([entry(0), entry(1), entry(2)])
    made = CommittedIsNeverCut(where)
    made.submitted(node(1, epoch=1), begins_anew(2))
    with pytest.raises(ViolationError, match="cuts its log to 1"):
        made.submitted(node(1, epoch=1), begins_anew(1))

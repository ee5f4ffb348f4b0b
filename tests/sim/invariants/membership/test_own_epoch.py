"""A voter set written before a record of the leader's own epoch is committed is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.membership.own_epoch import OwnEpochBeforeVoters
from tests.sim.invariants.fakes import entry, keyed, node, voter_record, world


def test_the_last_committed_record_is_of_the_own_epoch() -> None:
    where = world()
    where.ledger(node()).entries += [entry(0, epoch=1), entry(1, epoch=2)]
    made = OwnEpochBeforeVoters(where)
    made.voters_written(node(), voter_record(2, keyed(1, 2), epoch=2), 2)
    made.voters_written(node(), voter_record(0, keyed(1, 2), epoch=1, is_opening=True), 0)
    for committed_end in (0, 1):
        with pytest.raises(ViolationError, match=f"nothing of its epoch is committed: {committed_end} is"):
            made.voters_written(node(), voter_record(2, keyed(1, 2), epoch=2), committed_end)

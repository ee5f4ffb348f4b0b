"""A new voter that never caught up with its leader is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.membership.caught_up import NewVoterHasCaughtUp
from pykraft.sim.machine.spoken import LogEnd, Spoken
from tests.sim.invariants.fakes import entry, keyed, node, voter_record, world


def fetch(epoch: int, offset: int) -> Spoken:
    return Spoken(epoch=epoch, fetched=LogEnd(epoch=epoch, offset=offset))


def test_who_has_the_first_record_of_the_epoch_may_join_and_nobody_else() -> None:
    where = world()
    where.members.electorate.records = [voter_record(0, keyed(1, 2))]
    where.ledger(node()).entries += [entry(0, epoch=1), entry(1, epoch=2), entry(2, epoch=2)]
    made = NewVoterHasCaughtUp(where)
    joined = voter_record(3, keyed(1, 2, 3), epoch=2)
    for asked in (fetch(1, 9), fetch(2, 1)):
        made.before_send(node(3), asked)
        with pytest.raises(ViolationError, match="which began at 1, adds voter 3"):
            made.voters_written(node(), joined, 3)
    made.before_send(node(3), fetch(2, 2))
    made.before_send(node(3), Spoken(epoch=2))
    made.voters_written(node(), joined, 3)

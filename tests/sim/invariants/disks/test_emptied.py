"""A voter whose disk was emptied and that takes part without its former records is found."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.disks.emptied import EmptiedReturnsWhole
from pykraft.sim.machine.ledger import Ledger
from pykraft.sim.machine.spoken import LogEnd, Spoken, VoteAsked
from pykraft.types import Epoch, Offset, OffsetAndEpoch
from tests.sim.invariants.fakes import entry, node, world

HELD = [entry(offset) for offset in range(5)]
END = LogEnd(epoch=1, offset=2)


def asked(*, is_pre_vote: bool) -> VoteAsked:
    return VoteAsked(version=2, epoch=2, candidate_id=2, is_pre_vote=is_pre_vote, candidate_log=END)


@pytest.fixture
def where() -> Any:
    """Node 1 held five batches, of which four are committed, and has two of them again."""
    made = world()
    made.held[1] = list(HELD)
    made.committed = Ledger(HELD[:4])
    made.ledgers[1] = Ledger(HELD[:2])
    return made


@pytest.fixture
def made(where: Any) -> EmptiedReturnsWhole:
    oracle = EmptiedReturnsWhole(where)
    oracle.emptied(node(1))
    return oracle


@pytest.mark.parametrize(
    ("spoken", "does"),
    [
        (Spoken(epoch=2, fetched=END), "counts"),
        (Spoken(epoch=2, confirms_leader=True), "counts"),
        (Spoken(epoch=2, candidate_id=1), "votes"),
        (Spoken(epoch=2, granted=asked(is_pre_vote=False)), "votes"),
    ],
)
def test_who_takes_part_too_early_is_found(made: EmptiedReturnsWhole, spoken: Spoken, does: str) -> None:
    with pytest.raises(ViolationError, match=f"node 1 {does} with a log that ends at 2, .* committed from 2 to 3"):
        made.before_send(node(1), spoken)


@pytest.mark.parametrize("spoken", [Spoken(epoch=2), Spoken(epoch=2, granted=asked(is_pre_vote=True))])
def test_what_promises_nothing_is_no_part(made: EmptiedReturnsWhole, spoken: Spoken) -> None:
    made.before_send(node(1), spoken)
    made.before_send(node(2), Spoken(epoch=2, fetched=END))


def test_who_has_everything_again_takes_part(made: EmptiedReturnsWhole, where: Any) -> None:
    where.ledgers[1] = Ledger([*HELD[:4], entry(4, epoch=2)])
    made.before_send(node(1), Spoken(epoch=2, fetched=END))
    where.ledgers[1] = Ledger()
    made.before_send(node(1), Spoken(epoch=2, fetched=END))


def test_a_snapshot_stands_for_what_it_holds(made: EmptiedReturnsWhole, where: Any) -> None:
    where.ledgers[1] = Ledger(begin=OffsetAndEpoch(Offset(5), Epoch(1)))
    made.before_send(node(1), Spoken(epoch=2, fetched=END))


def test_what_stood_in_a_snapshot_is_owed_as_well(where: Any) -> None:
    where.held[1] = HELD[3:]
    oracle = EmptiedReturnsWhole(where)
    oracle.emptied(node(1))
    with pytest.raises(ViolationError, match="from 2 to 3"):
        oracle.before_send(node(1), Spoken(epoch=2, fetched=END))
    where.committed = Ledger()
    oracle.emptied(node(1))
    oracle.before_send(node(1), Spoken(epoch=2, fetched=END))


def test_an_operator_may_take_care(made: EmptiedReturnsWhole) -> None:
    made.wiped(node(1))
    made.before_send(node(1), Spoken(epoch=2, fetched=END))

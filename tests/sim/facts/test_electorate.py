"""Voter sets are read once from batches on their way to a disk, and looked up by log."""

from __future__ import annotations

from pykraft.protocol.batch import read_header
from pykraft.protocol.records import encode_control_batch
from pykraft.sim.facts.electorate import Electorate
from pykraft.sim.machine.ledger import Entry
from pykraft.types import ControlRecord, Epoch, KRaftVersion, KRaftVoters, LeaderChange, NodeId, Offset
from tests.sim.invariants.fakes import appends, encoded, voters_of


def control(base_offset: int, *records: ControlRecord, epoch: int = 1) -> bytes:
    return encode_control_batch(records, base_offset=Offset(base_offset), epoch=Epoch(epoch), timestamp_ms=0).data


CHANGE = LeaderChange(leader_id=NodeId(1), voters=(NodeId(1),), granting_voters=(NodeId(1),))
OPENING = control(0, CHANGE, KRaftVersion(1), KRaftVoters(voters_of(3)))
SECOND = control(7, KRaftVoters(voters_of(2)))
OTHER = control(7, KRaftVoters(voters_of(4)), epoch=2)


def test_sets_are_found_in_the_order_of_their_offsets_and_epochs() -> None:
    known = Electorate(voters_of(3))
    known.submitted(appends(OTHER))
    known.submitted(appends(OPENING, encoded(3, b"value"), encoded(4), SECOND))
    known.submitted(appends(SECOND))
    first, second, other = known.records
    assert (first.offset, first.level, first.is_opening, first.voters) == (2, 1, True, voters_of(3))
    assert (second.offset, second.level, second.is_opening, second.voters) == (7, None, False, voters_of(2))
    assert (other.offset, other.entry.epoch) == (7, 2)


def test_the_newest_one_is_that_of_a_log_that_holds_its_batch() -> None:
    known = Electorate(voters_of(3))
    assert known.newest(lambda _: True) is None
    known.submitted(appends(OPENING, SECOND, OTHER))
    held = {Entry.of(read_header(OPENING)), Entry.of(read_header(SECOND))}
    newest = known.newest(held.__contains__)
    assert newest is not None
    assert newest.voters == voters_of(2)

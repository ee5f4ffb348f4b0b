"""A voter set that differs by two voters is found, and one without a directory id."""

from __future__ import annotations

import pytest

from pykraft.sim.facts.members import VoterRecord
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.membership.one_voter import VotersChangeByOne
from pykraft.types import VoterSet
from tests.sim.invariants.fakes import keyed, node, voter_record, voters_of, world


def written(before: VoterSet, record: VoterRecord) -> None:
    where = world()
    where.members.electorate.records = [voter_record(0, before)]
    VotersChangeByOne(where).voters_written(node(), record, 5)


@pytest.mark.parametrize(
    "record",
    [
        voter_record(5, keyed(1, 2, 3, 4)),
        voter_record(5, keyed(1, 3)),
        voter_record(5, keyed(1, 2, 3)),
        voter_record(0, keyed(1, 2, 3), level=1, is_opening=True),
    ],
)
def test_one_more_one_less_and_the_same_ones_are_accepted(record: VoterRecord) -> None:
    written(keyed(1, 2, 3), record)


def test_an_upgrade_gives_the_configured_voters_their_disks() -> None:
    written(voters_of(3), voter_record(5, keyed(1, 2, 3), level=1))
    for wrong in (keyed(1, 2), voters_of(3)):
        with pytest.raises(ViolationError, match=r"after 1:3f, 2:3f, 3:3f"):
            written(voters_of(3), voter_record(5, wrong, level=1))


@pytest.mark.parametrize(
    "record",
    [
        voter_record(5, keyed(1, 2, 4)),
        voter_record(5, keyed(1)),
        voter_record(0, keyed(1, 2), level=1, is_opening=True),
    ],
)
def test_two_voters_at_a_time_are_found(record: VoterRecord) -> None:
    with pytest.raises(ViolationError, match="leader 1 of epoch 1 writes the voters 1:0101"):
        written(keyed(1, 2, 3), record)

"""A vote that was requested from another directory id is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.elections.vote_key import VotesAreOfTheDisk
from pykraft.sim.machine.spoken import LogEnd, Spoken, VoteAsked
from tests.sim.invariants.fakes import directory_of, node, world


def granted(directory_id: bytes | None, *, is_pre_vote: bool = False) -> Spoken:
    log = LogEnd(epoch=1, offset=1)
    asked = VoteAsked(
        version=2, epoch=2, candidate_id=3, is_pre_vote=is_pre_vote, candidate_log=log, voter_directory_id=directory_id
    )
    return Spoken(epoch=2, granted=asked)


def test_votes_are_of_the_disk_that_was_asked_or_of_any() -> None:
    made = VotesAreOfTheDisk(world())
    for accepted in (granted(None), granted(directory_of(1)), Spoken(epoch=1)):
        made.before_send(node(1), accepted)
    with pytest.raises(ViolationError, match="node 1 gives 3 its vote in epoch 2"):
        made.before_send(node(1), granted(directory_of(2)))
    with pytest.raises(ViolationError, match="node 1 gives 3 its pre-vote"):
        made.before_send(node(1), granted(directory_of(2), is_pre_vote=True))

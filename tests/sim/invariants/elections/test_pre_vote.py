"""A pre-vote that is denied without a reason is found."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.elections.pre_vote import PreVotesAreGranted
from pykraft.sim.machine.spoken import LogEnd, Spoken, VoteAsked
from tests.sim.invariants.fakes import node, world


def denied(*, offset: int = 5, **fields: Any) -> Spoken:
    """Node 3, whose log ends at 5, is denied a pre-vote by a voter whose log ends at this offset."""
    asked = VoteAsked(
        version=2,
        epoch=2,
        candidate_id=3,
        is_pre_vote=True,
        candidate_log=LogEnd(epoch=1, offset=5),
        voter_log=LogEnd(epoch=1, offset=offset),
        **fields,
    )
    return Spoken(epoch=2, denied=asked)


@pytest.mark.parametrize("offset", [4, 5])
def test_a_denial_without_a_leader_is_found(offset: int) -> None:
    with pytest.raises(ViolationError, match="node 1 denies 3 its pre-vote in epoch 2"):
        PreVotesAreGranted(world()).before_send(node(), denied(offset=offset))


@pytest.mark.parametrize(
    "spoken", [Spoken(epoch=2), denied(offset=6), denied(may_be_denied=True), denied(is_voter_damaged=True)]
)
def test_a_denial_with_a_reason_passes(spoken: Spoken) -> None:
    PreVotesAreGranted(world()).before_send(node(), spoken)


def test_another_directory_of_a_voter_may_be_denied() -> None:
    wiped = PreVotesAreGranted(world())
    wiped.wiped(node(3))
    wiped.before_send(node(), denied())
    where = world()
    where.claims.twin_ids.add(3)
    PreVotesAreGranted(where).before_send(node(), denied())

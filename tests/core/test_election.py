"""Tallies, timeouts and the order of successors."""

from itertools import product
from random import Random

import pytest

from pykraft.core.election import Tally, draw_election_timeout_ms, successor_backoff_ms
from pykraft.core.quorum import majority_of
from pykraft.types import NodeId, ReplicaKey
from tests.core.replicas import directory, key, voter_set

ANSWERS = (True, False, None)


@pytest.mark.conformance(87)
@pytest.mark.parametrize("count", range(1, 6))
def test_a_tally_is_won_or_lost_exactly_when_the_rest_cannot_change_it(count: int) -> None:
    for answers in product(ANSWERS, repeat=count - 1):
        tally = Tally.begin(voter_set(*range(1, count + 1)), key(1))
        for voter_id, answer in enumerate(answers, start=2):
            if answer is not None:
                tally = tally.record(NodeId(voter_id), granted=answer)
        granted, open_count = 1 + answers.count(True), answers.count(None)
        assert tally.is_won == (granted >= majority_of(count))
        assert tally.is_lost == (granted + open_count < majority_of(count))
        assert tally.unanswered == tuple(at for at, answer in enumerate(answers, start=2) if answer is None)


@pytest.mark.conformance(87, 89)
def test_the_latest_answer_of_a_voter_counts() -> None:
    tally = Tally.begin(voter_set(1, 2, 3), key(1)).record(NodeId(2), granted=False)
    assert not tally.is_won
    tally = tally.record(NodeId(2), granted=True)
    assert tally.is_won
    assert not tally.rejected
    assert tally.record(NodeId(2), granted=False).granted == {1}


def test_a_denial_can_be_forgotten_and_a_grant_cannot() -> None:
    tally = Tally.begin(voter_set(1, 2, 3), key(1)).record(NodeId(2), granted=False)
    assert tally.forget(NodeId(3)) == tally
    assert tally.forget(NodeId(2)).unanswered == (2, 3)
    granted = tally.record(NodeId(3), granted=True)
    assert granted.forget(NodeId(3)) == granted


@pytest.mark.conformance(87)
def test_the_same_answer_twice_is_one_answer() -> None:
    once = Tally.begin(voter_set(*range(1, 6)), key(1)).record(NodeId(2), granted=True)
    once = once.record(NodeId(3), granted=False)
    again = once.record(NodeId(2), granted=True).record(NodeId(3), granted=False)
    assert again == once
    assert (sorted(again.granted), sorted(again.rejected), again.unanswered) == ([1, 2], [3], (4, 5))


@pytest.mark.conformance(87, 88)
def test_only_voters_count() -> None:
    stranger = Tally.begin(voter_set(2), key(1))
    assert (stranger.granted, stranger.unanswered, stranger.is_won) == (frozenset(), (NodeId(2),), False)
    with pytest.raises(AssertionError):
        Tally.begin(voter_set(1), key(1)).record(NodeId(2), granted=True)


def test_a_voter_with_another_directory_has_no_vote_of_the_one_with_its_id() -> None:
    tally = Tally.begin(voter_set(1, 2), ReplicaKey(NodeId(1), directory(9)))
    assert (tally.granted, tally.unanswered) == (frozenset(), (NodeId(2),))
    assert not tally.record(NodeId(2), granted=True).is_won


@pytest.mark.conformance("H81")
def test_election_timeouts_are_spread_over_one_to_two_times_the_setting() -> None:
    rng = Random(3)
    drawn = {draw_election_timeout_ms(rng, 10) for _ in range(500)}
    assert drawn == set(range(10, 20))
    assert draw_election_timeout_ms(rng, 0) == 0


@pytest.mark.conformance("H82")
@pytest.mark.parametrize(
    ("position", "count", "expected_ms"),
    [(0, 4, 0), (1, 4, 125), (2, 4, 250), (3, 4, 500), (None, 4, 1_000), (0, 1, 0), (1, 2, 500), (None, 0, 0)],
)
def test_the_first_successor_does_not_wait_and_each_other_longer(
    position: int | None, count: int, expected_ms: int
) -> None:
    successors = [key(100 + at) for at in range(count)]
    if position is not None:
        successors[position] = key(1)
    assert successor_backoff_ms(key(1), tuple(successors), 1_000) == expected_ms


def test_a_successor_without_directory_id_is_any_replica_with_its_id() -> None:
    assert successor_backoff_ms(key(1), (ReplicaKey(NodeId(1)),), 1_000) == 0
    assert successor_backoff_ms(key(1), (ReplicaKey(NodeId(1), directory(2)),), 1_000) == 1_000

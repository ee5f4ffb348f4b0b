"""What a leader learns from the Fetches of each replica."""

from collections.abc import Iterator

import pytest

from pykraft.core.leader.progress import (
    FIRST_ANSWER_SIZE_BYTES_MAX,
    OBSERVER_SESSION_MS,
    OBSERVERS_MAX,
    Progress,
    ReplicaProgress,
)
from pykraft.types import NodeId, Offset, ReplicaKey, Uuid, Voter, VoterSet
from tests.core.replicas import NOW, directory, key, later, listeners, voter_set


def seen(*fetches: tuple[int, int, int]) -> ReplicaProgress:
    """After fetches (ms, fetch offset, leader's end)."""
    progress = ReplicaProgress(key=key(2))
    for at_ms, offset, end in fetches:
        progress.fetched(Offset(offset), Offset(end), later(at_ms))
    return progress


@pytest.mark.parametrize(
    ("fetches", "expected_ms"),
    [
        ([(0, 9, 10)], None),
        ([(0, 10, 10)], 0),
        ([(0, 9, 10), (5, 10, 12)], 0),
        ([(0, 9, 10), (5, 9, 12)], None),
        ([(0, 0, 0), (5, 0, 12)], 0),
        ([(0, 9, 10), (5, 10, 12), (8, 11, 13)], 0),
        ([(0, 9, 10), (5, 10, 12), (8, 12, 13)], 5),
        ([(5, 10, 10), (0, 10, 10)], 5),
    ],
)
def test_a_replica_was_caught_up_when_it_had_what_the_leader_had_at_its_fetch_before(
    fetches: list[tuple[int, int, int]], expected_ms: int | None
) -> None:
    caught_up = seen(*fetches).caught_up_wall_ms
    assert caught_up == (-1 if expected_ms is None else NOW.wall_ms + expected_ms)


@pytest.mark.conformance(46)
def test_the_last_fetch_counts_even_if_it_goes_back() -> None:
    progress = seen((0, 9, 10), (5, 3, 10))
    assert progress.end_offset == 3
    assert progress.fetched_wall_ms == NOW.wall_ms + 5


def test_silence_begins_with_the_last_fetch_and_was_always_before_the_first() -> None:
    assert ReplicaProgress(key=key(2)).is_silent_for(1, NOW)
    assert not seen((0, 1, 1)).is_silent_for(100, later(99))
    assert seen((0, 1, 1)).is_silent_for(100, later(100))


def test_a_voters_id_with_another_directory_is_an_observer() -> None:
    progress = Progress(voter_set(1, 2))
    impostor = ReplicaKey(NodeId(2), directory(9))
    assert progress.of(key(2)) is progress.voters[NodeId(2)]
    assert progress.of(impostor) is progress.of(impostor)
    assert progress.of(impostor) is not progress.voters[NodeId(2)]
    assert progress.is_voter(key(2))
    assert not progress.is_voter(impostor)
    assert not progress.is_voter(key(3))


@pytest.mark.conformance(41, 93)
def test_a_static_voter_is_known_by_its_id_alone() -> None:
    static = VoterSet.of([Voter(key=ReplicaKey(NodeId(2)), listeners=listeners(2))])
    assert Progress(static).is_voter(key(2))


def test_the_first_directory_that_fetches_as_a_static_voter_is_its_own_for_the_epoch() -> None:
    progress = Progress(VoterSet.of([Voter(key=ReplicaKey(NodeId(2)), listeners=listeners(2))]))
    twin, without = ReplicaKey(NodeId(2), directory(9)), ReplicaKey(NodeId(2))
    assert progress.twin_of(twin) is None
    voter = progress.of(key(2))
    assert voter is progress.voters[NodeId(2)]
    assert progress.of(without) is voter, "an old version tells none"
    assert progress.of(key(2)) is voter
    assert progress.of(twin) is not voter
    assert (progress.is_voter(key(2)), progress.is_voter(without), progress.is_voter(twin)) == (True, True, False)
    assert progress.known(twin) is progress.observer(twin)
    assert progress.twin_of(twin) is voter
    assert [progress.twin_of(other) for other in (key(2), without, key(3))] == [None, None, None]


def test_a_voter_whose_directory_the_voter_set_names_has_no_twin() -> None:
    progress = Progress(voter_set(2))
    progress.of(key(2))
    assert progress.voters[NodeId(2)].directory_id is None
    assert progress.twin_of(ReplicaKey(NodeId(2), directory(9))) is None


def test_a_static_voter_that_stays_one_keeps_its_directory_for_the_epoch() -> None:
    static = VoterSet.of([Voter(key=ReplicaKey(NodeId(2)), listeners=listeners(2))])
    progress = Progress(static)
    progress.of(key(2))
    progress.change_voters(VoterSet.of([*static.voters, *voter_set(3).voters]))
    assert not progress.is_voter(ReplicaKey(NodeId(2), directory(9)))


def test_what_a_voter_acknowledged_never_falls() -> None:
    progress = seen((0, 9, 10), (5, 3, 10))
    assert (progress.end_offset, progress.acknowledged_end_offset) == (3, 9)


@pytest.mark.conformance(46)
def test_observers_are_told_in_order_and_forgotten_after_five_minutes_of_silence() -> None:
    assert OBSERVER_SESSION_MS == 5 * 60 * 1_000
    progress = Progress(voter_set(1))
    for node_id, at_ms in ((8, 10), (7, 0)):
        progress.of(key(node_id)).fetched(Offset(0), Offset(0), later(at_ms))
    assert [progress.observers_count(later(OBSERVER_SESSION_MS + ms)) for ms in (-1, 0, 10)] == [2, 1, 0]
    assert [observer.key for observer in progress.observers(later(10))] == [key(7), key(8)]
    assert [observer.key for observer in progress.observers(later(OBSERVER_SESSION_MS))] == [key(8)]
    assert progress.observers(later(OBSERVER_SESSION_MS + 10)) == []


def test_a_removed_voter_that_never_fetched_is_counted_until_observers_are_told() -> None:
    """Kafka's own test of RemoveRaftVoter asks for it."""
    progress = Progress(voter_set(1, 2, 3))
    progress.change_voters(voter_set(1, 2))
    assert progress.observers_count(later(0)) == 1
    assert progress.observers(later(0)) == []
    assert progress.observers_count(later(0)) == 0


def test_the_longest_silent_observer_makes_room() -> None:
    progress = Progress(voter_set(1))
    for number in range(OBSERVERS_MAX):
        observer = ReplicaKey(NodeId(9), Uuid(number.to_bytes(16, "big")))
        progress.of(observer).fetched(Offset(0), Offset(0), later(number))
    first, second = (ReplicaKey(NodeId(9), Uuid(number.to_bytes(16, "big"))) for number in (0, 1))
    progress.of(first).fetched(Offset(0), Offset(0), later(1_000))
    progress.of(key(8)).fetched(Offset(0), Offset(0), later(1_000))
    kept = [observer.key for observer in progress.observers(later(1_000))]
    assert len(kept) == OBSERVERS_MAX
    assert first in kept, "it fetched again"
    assert second not in kept


def test_observers_that_nobody_knows_cost_no_search() -> None:
    """A search among those that are there for each of 5,000 new ids would look at millions."""
    compared = looked_at = 0

    class Counted(bytes):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return bytes.__eq__(self, other)

        __hash__ = bytes.__hash__

    class Watched(dict[ReplicaKey, ReplicaProgress]):
        def __iter__(self) -> Iterator[ReplicaKey]:
            nonlocal looked_at
            for each in super().__iter__():
                looked_at += 1
                yield each

    progress = Progress(voter_set(1))
    progress._observers = Watched()
    for number in range(5 * OBSERVERS_MAX):
        observer = ReplicaKey(NodeId(9), Uuid(Counted(number.to_bytes(16, "big"))))
        progress.of(observer).fetched(Offset(0), Offset(0), later(number))
    assert progress.observers_count(later(0)) == OBSERVERS_MAX
    assert compared < 5 * OBSERVERS_MAX
    assert looked_at <= 5 * OBSERVERS_MAX


@pytest.mark.conformance(93)
def test_successors_are_the_most_caught_up_first_unknown_last_ties_by_id() -> None:
    progress = Progress(voter_set(1, 2, 3, 4, 5))
    for node_id, offset in ((5, 7), (3, 7), (4, 0)):
        progress.of(key(node_id)).fetched(Offset(offset), Offset(9), NOW)
    assert progress.by_fetch_offset(without=NodeId(1)) == (key(3), key(5), key(4), key(2))


@pytest.mark.conformance(93)
def test_who_joins_the_voters_brings_what_it_fetched_and_who_leaves_goes_on_as_an_observer() -> None:
    progress = Progress(voter_set(1, 2))
    progress.of(key(2)).fetched(Offset(5), Offset(9), NOW)
    progress.of(key(3)).fetched(Offset(7), Offset(9), NOW)
    progress.change_voters(voter_set(1, 3, 4))
    assert {node_id: seen.end_offset for node_id, seen in progress.voters.items()} == {1: None, 3: 7, 4: None}
    left = progress.observer(key(2))
    assert left is not None
    assert left.end_offset == 5
    assert progress.observer(key(3)) is None


@pytest.mark.conformance(93)
def test_a_voter_with_another_directory_id_begins_anew_and_one_that_told_its_own_does_not() -> None:
    anonymous = VoterSet.of([Voter(key=ReplicaKey(NodeId(2)), listeners=listeners(2))])
    progress = Progress(anonymous)
    progress.of(key(2)).fetched(Offset(5), Offset(9), NOW)
    progress.change_voters(voter_set(2))
    assert progress.voters[NodeId(2)].end_offset == 5
    assert progress.voters[NodeId(2)].key == key(2)
    assert progress.voters[NodeId(2)].directory_id is None, "the voter set names it now"
    replaced = VoterSet.of([Voter(key=ReplicaKey(NodeId(2), directory(9)), listeners=listeners(2))])
    progress.change_voters(replaced)
    assert progress.voters[NodeId(2)].end_offset is None


def test_answers_begin_small_and_quick_ones_double_the_next() -> None:
    progress, now_ms, sizes = ReplicaProgress(key=key(2)), 0, []
    for took_ms in (10, 10, 10, 10, 1_100, 300, 10):
        sizes.append(
            progress.answers(1, 5 << 20, now_ms, timeout_ms=2_000, floor_bytes=16_384) / FIRST_ANSWER_SIZE_BYTES_MAX
        )
        now_ms += took_ms
        progress.asks_again(5 << 20, now_ms)
    assert sizes == [1, 2, 4, 5, 5, 2.5, 2.5], "the slow one halves it, one that is neither quick nor slow keeps it"

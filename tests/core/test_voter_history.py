"""Voter sets by offset: added in log order, looked up, truncated at both ends."""

import pytest

from pykraft.core.voter_history import BOOTSTRAP_OFFSET, VoterHistory
from pykraft.types import KRaftVersion, KRaftVoters, Offset, VoterSet
from tests.core.replicas import voter_set

STATIC = voter_set(1, 2, 3)
TWO, FOUR = voter_set(1, 2), voter_set(1, 2, 3, 4)


def grown() -> VoterHistory:
    return VoterHistory(
        STATIC,
        [
            (Offset(5), KRaftVersion(1)),
            (Offset(6), KRaftVoters(STATIC)),
            (Offset(9), KRaftVoters(FOUR)),
            (Offset(20), KRaftVoters(TWO)),
        ],
    )


@pytest.mark.conformance(140)
def test_the_configured_set_counts_until_the_log_has_one() -> None:
    made = VoterHistory(STATIC)
    assert (made.voters, made.kraft_version, made.voters_offset, made.ignores_static) == (STATIC, 0, None, False)
    made.record(Offset(3), KRaftVoters(FOUR))
    assert (made.voters, made.kraft_version, made.voters_offset, made.ignores_static) == (FOUR, 0, 3, True)
    made.record(Offset(4), KRaftVersion(1))
    assert made.kraft_version == 1
    assert not VoterHistory(VoterSet(), [(BOOTSTRAP_OFFSET, KRaftVoters(TWO))]).ignores_static


@pytest.mark.conformance(140)
@pytest.mark.parametrize(
    ("offset", "voters", "version"),
    [(4, None, 0), (5, None, 1), (6, STATIC, 1), (8, STATIC, 1), (9, FOUR, 1), (19, FOUR, 1), (20, TWO, 1)],
)
def test_what_was_in_force_at_an_offset(offset: int, voters: VoterSet | None, version: int) -> None:
    assert grown().voters_at(Offset(offset)) == voters
    assert grown().kraft_version_at(Offset(offset)) == version


@pytest.mark.conformance(139, 140)
@pytest.mark.parametrize(
    ("end_offset", "voters", "version"), [(21, TWO, 1), (20, FOUR, 1), (9, STATIC, 1), (6, STATIC, 1), (5, STATIC, 0)]
)
def test_a_truncation_brings_back_what_was_in_force_before(end_offset: int, voters: VoterSet, version: int) -> None:
    made = grown()
    made.truncate_to(Offset(end_offset))
    assert (made.voters, made.kraft_version) == (voters, version)
    made.record(Offset(end_offset), KRaftVoters(TWO))
    assert made.voters == TWO


@pytest.mark.parametrize(
    ("end_offset", "voters", "version"), [(21, TWO, 1), (20, FOUR, 1), (9, STATIC, 1), (6, TWO, 1)]
)
def test_what_was_lost_and_a_snapshot_holds_still_counts_where_nothing_else_is_left(
    end_offset: int, voters: VoterSet, version: int
) -> None:
    """A damaged log that ended before its only snapshot left its node without any voters (simulated seed 20007)."""
    made = grown()
    made.lose_from(Offset(end_offset), Offset(22))
    assert (made.voters, made.kraft_version) == (voters, version)
    made.record(Offset(end_offset), KRaftVoters(FOUR))
    assert made.voters == FOUR


def test_what_a_snapshot_said_holds_for_a_log_of_which_nothing_is_left() -> None:
    made = VoterHistory(VoterSet(), [(Offset(9), KRaftVersion(1)), (Offset(9), KRaftVoters(TWO))])
    made.lose_from(Offset(0), Offset(10))
    assert (made.voters, made.kraft_version, made.voters_offset) == (TWO, 1, BOOTSTRAP_OFFSET)


@pytest.mark.parametrize(("static", "voters", "version"), [(VoterSet(), TWO, 1), (STATIC, STATIC, 0)])
def test_the_newest_snapshot_speaks_for_older_ones_that_were_not_read(
    static: VoterSet, voters: VoterSet, version: int
) -> None:
    """A node whose log was damaged before its oldest snapshot had no voters any more (simulated seed 3088)."""
    made = VoterHistory(static, [(Offset(466), KRaftVersion(1)), (Offset(466), KRaftVoters(TWO))])
    made.lose_from(Offset(257), Offset(320))
    assert (made.voters, made.kraft_version) == (voters, version)


def test_where_no_snapshot_reaches_further_what_is_lost_says_nothing() -> None:
    made = VoterHistory(VoterSet(), [(Offset(466), KRaftVersion(1)), (Offset(466), KRaftVoters(TWO))])
    made.lose_from(Offset(257), Offset(257))
    assert (made.voters, made.kraft_version) == (VoterSet(), 0)


@pytest.mark.conformance(140)
def test_what_a_snapshot_holds_is_forgotten_but_for_what_is_in_force_at_its_end() -> None:
    made = grown()
    made.forget_before(Offset(10))
    assert [made.voters_at(Offset(at)) for at in (8, 9, 20)] == [None, FOUR, TWO]
    assert made.kraft_version_at(Offset(9)) == 1
    made.forget_before(Offset(3))
    assert made.voters_at(Offset(9)) == FOUR


def test_records_come_in_the_order_of_the_log() -> None:
    with pytest.raises(AssertionError, match="order of the log"):
        grown().record(Offset(20), KRaftVoters(TWO))
    with pytest.raises(AssertionError):
        VoterHistory(STATIC).record(Offset(-2), KRaftVersion(1))


@pytest.mark.conformance(139, 140)
def test_a_snapshot_that_replaces_the_log_replaces_what_it_said() -> None:
    made = grown()
    made.replace_by(Offset(7), (KRaftVersion(1), KRaftVoters(TWO)))
    assert (made.voters, made.kraft_version, made.voters_offset) == (TWO, 1, 6)
    made.replace_by(Offset(50), ())
    assert (made.voters, made.kraft_version, made.voters_offset) == (STATIC, 0, None)


@pytest.mark.parametrize(
    ("node_id", "committed_end", "is_leaving"), [(3, 20, True), (3, 21, False), (1, 20, False), (5, 20, False)]
)
def test_who_the_newest_set_has_removed_is_leaving_while_that_is_in_doubt(
    node_id: int, committed_end: int, is_leaving: bool
) -> None:
    key = voter_set(node_id).voters[0].key
    assert grown().is_leaving(key, Offset(committed_end)) is is_leaving
    assert not VoterHistory(STATIC).is_leaving(key, Offset(0))
    first = VoterHistory(STATIC, [(Offset(6), KRaftVoters(TWO))])
    assert first.is_leaving(key, Offset(6)) is (node_id == 3)

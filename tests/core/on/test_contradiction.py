"""A follower gives up a leader that contradicts it or itself; it does not stop and truncates nothing committed.

Source: ours; Raft paper §5.4.3 (Leader Completeness), §5.3 (leaders append only); Kafka's client throws an exception in
the first case, and believes the leader in the others.
"""

from dataclasses import replace

import pytest

from pykraft.config import RaftConfig
from pykraft.core.effects import Report
from pykraft.core.on.contradiction import FOREIGN_ANSWERS_MAX
from pykraft.core.on.send_requests import send_fetch_to_leader
from pykraft.core.on.timer import poll
from pykraft.core.on.voters.auto_join import speak_of_membership
from pykraft.core.replica import Replica
from pykraft.core.state import Follower, Prospective
from pykraft.core.voter_history import VoterHistory
from pykraft.errors import ProtocolError
from pykraft.types import Endpoint, Instant, KRaftVoters, Offset, VoterSet
from tests.core.replicas import NOW, answer, ask, done, follower, kinds, later, only, replica, sent, twice, voter_set
from tests.core.said import batch, begin, fetched, sliced, vote


def state_of(made: Replica) -> Follower:
    assert isinstance(made.state, Follower)
    return made.state


def given_up(leader_id: int = 2, *, bootstrap: tuple[Endpoint, ...] = ()) -> Replica:
    """A follower in epoch 5 whose leader wanted committed records cut."""
    made = replica(follower(leader_id=leader_id, has_fetched=True), bootstrap=bootstrap)
    made.log.commit_to(Offset(8))
    found = twice(made, fetched(diverging=(7, 3), leader_id=leader_id), peer_id=leader_id)
    report = only(found, Report)
    assert report.is_alarm
    assert "below 8 is committed" in report.text
    return made


def stranger(voters: VoterSet | None = None) -> Replica:
    """Follows node 7, which is no voter."""
    made = replica(follower(leader_id=7), voters=voters)
    made.log.commit_to(Offset(4))
    return made


def test_a_leader_is_given_up_for_its_epoch_and_denies_nobody_a_pre_vote() -> None:
    made = given_up()
    assert (made.has_given_up_leader, made.log.end_offset, state_of(made).has_fetched) == (True, 10, False)
    ask(made, vote(epoch=5, pre_vote=True))
    assert isinstance(made.state, Follower)
    ask(made, begin(epoch=6, leader_id=2))
    assert not made.has_given_up_leader


def test_a_leader_that_was_given_up_is_not_believed_again_when_it_announces_itself() -> None:
    made = given_up()
    ask(made, begin(epoch=5, leader_id=2))
    assert made.has_given_up_leader
    assert answer(made, fetched(batch(10, 11, 5), high_watermark=11)) == []
    assert (made.log.end_offset, state_of(made).has_fetched) == (10, False)
    assert made.connections.is_backing_off(2)


def test_a_voter_campaigns_soon_after_it_gave_up() -> None:
    made = given_up()
    assert state_of(made).fetch_deadline_ms <= NOW.mono_ms + 2_000
    poll(made, later(2_000))
    assert isinstance(made.state, Prospective)


def test_who_gave_up_its_leader_asks_the_others_for_another_one() -> None:
    made = given_up()
    send_fetch_to_leader(made, state_of(made), NOW)
    assert sent(done(made)) == [(3, "FetchRequest")]
    made = given_up(bootstrap=(Endpoint("n2", 9_002), Endpoint("b", 1)))
    send_fetch_to_leader(made, state_of(made), NOW)
    assert sent(done(made)) == [(-3, "FetchRequest")]
    made.state = replace(state_of(made), update_deadline_ms=0)
    assert not speak_of_membership(made, state_of(made), NOW)


@pytest.mark.conformance(104)
def test_a_leader_that_has_agreed_with_the_log_cannot_want_it_cut_in_its_epoch() -> None:
    made = replica(follower())
    answer(made, fetched())
    assert state_of(made).has_agreed
    found = twice(made, fetched(diverging=(7, 3)))
    assert "after it had accepted all of it" in only(found, Report).text
    assert (made.log.end_offset, made.has_given_up_leader) == (10, True)


def test_a_single_contradiction_may_be_a_flipped_bit() -> None:
    made = replica(follower(has_fetched=True))
    answer(made, fetched())
    for _ in range(3):
        assert answer(made, fetched(diverging=(7, 3))) == []
        assert answer(made, fetched()) == []
    assert (made.log.end_offset, made.has_given_up_leader) == (10, False)


def test_a_stranger_is_followed_until_its_log_is_here_and_does_not_name_it() -> None:
    made = stranger()
    answer(made, fetched(batch(10, 12, 5), leader_id=7), peer_id=7)
    assert (made.log.end_offset, state_of(made).has_fetched) == (12, True)
    found = twice(made, fetched(leader_id=7), peer_id=7)
    assert "it is not one of the voters 1, 2, 3" in only(found, Report).text
    assert made.has_given_up_leader


def test_a_stranger_that_its_log_names_is_a_leader_like_any_other() -> None:
    made = stranger()
    record = (Offset(11), KRaftVoters(voter_set(1, 2, 7)))
    answer(made, fetched(replace(batch(10, 12, 5), membership=(record,)), leader_id=7), peer_id=7)
    assert answer(made, fetched(leader_id=7), peer_id=7) == []
    assert not made.has_given_up_leader


def test_a_leader_that_removes_itself_leads_until_that_is_committed() -> None:
    made = stranger()
    made.voter_history = VoterHistory(
        VoterSet(), [(Offset(2), KRaftVoters(voter_set(1, 7))), (Offset(9), KRaftVoters(voter_set(1)))]
    )
    assert answer(made, fetched(leader_id=7, high_watermark=9), peer_id=7)
    assert answer(made, fetched(leader_id=7, high_watermark=9), peer_id=7) == []
    last = answer(made, fetched(leader_id=7, high_watermark=10), peer_id=7)
    assert kinds(last) == ["NotifyHighWatermark"], "it resigns with this answer"
    assert "is given up" in only(twice(made, fetched(leader_id=7, high_watermark=10), peer_id=7), Report).text


def test_a_leader_that_was_elected_after_its_removal_leads_until_it_knows() -> None:
    made = stranger()
    made.voter_history = VoterHistory(
        VoterSet(), [(Offset(2), KRaftVoters(voter_set(1, 7))), (Offset(9), KRaftVoters(voter_set(1)))]
    )
    # Known since an earlier epoch; this leader has committed nothing in its own yet.
    made.log.commit_to(Offset(10))
    made.asked_high_watermark = Offset(10)
    assert answer(made, fetched(leader_id=7, high_watermark=None), peer_id=7) == []
    assert state_of(made).has_fetched, "it is alive"
    last = answer(made, fetched(leader_id=7, high_watermark=10), peer_id=7)
    assert kinds(last) == ["NotifyHighWatermark"], "it resigns with this answer"
    assert "is given up" in only(twice(made, fetched(leader_id=7, high_watermark=10), peer_id=7), Report).text


def test_a_leader_that_parts_below_the_log_start_is_given_up_and_nothing_is_cut() -> None:
    made = replica(follower())
    made.log.start_offset = Offset(4)
    made.log.commit_to(Offset(4))
    found = twice(made, fetched(diverging=(2, 1)))
    assert "it asks to truncate the log to 2, but everything below 4 is committed" in only(found, Report).text
    assert (made.log.end_offset, made.has_given_up_leader) == (10, True)


def test_who_knows_no_voters_follows_anybody() -> None:
    made = stranger(VoterSet())
    made.voter_history = VoterHistory(VoterSet())
    assert answer(made, fetched(leader_id=7), peer_id=7) == []


def test_a_stranger_is_alive_only_as_long_as_it_brings_something() -> None:
    made = stranger()
    for message in (fetched(leader_id=7, snapshot=(30, 5)), fetched(leader_id=7, invalid="bytes")):
        answer(made, message, peer_id=7)
        assert not state_of(made).has_fetched
    made.state = replace(state_of(made), has_agreed=False)
    answer(made, fetched(leader_id=7, diverging=(7, 3)), peer_id=7)
    assert (made.log.end_offset, state_of(made).has_fetched) == (7, False)


def test_an_answer_that_names_another_leader_of_the_epoch_costs_the_connection() -> None:
    made = replica(follower(has_fetched=True))
    with pytest.raises(ProtocolError, match="epoch 5 has leader 2, it names 3 as well"):
        answer(made, fetched(batch(10, 11, 5), leader_id=3))
    assert made.log.end_offset == 10


@pytest.mark.parametrize(("peer_id", "leader_id"), [(3, 2), (2, None), (-2, None)])
def test_nobody_but_the_leader_has_records(peer_id: int, leader_id: int | None) -> None:
    made = replica(follower())
    with pytest.raises(ProtocolError, match="answers as a leader, but 2 leads epoch 5"):
        answer(made, fetched(batch(10, 11, 5), leader_id=leader_id), peer_id=peer_id)
    assert (made.log.end_offset, state_of(made).has_fetched) == (10, False)


def test_a_bootstrap_server_that_is_the_leader_says_so() -> None:
    made = replica(follower())
    assert "AppendFetched" in kinds(answer(made, fetched(batch(10, 11, 5)), peer_id=-2))


def test_a_leader_that_answers_at_once_with_nothing_gets_a_rest() -> None:
    made = replica(follower(), config=RaftConfig(retry_backoff_ms=20))
    rests = []
    for ms in (0, 1, 2, 3, 30, 31):
        answer(made, fetched(), now=later(ms))
        rests.append(made.connections.is_backing_off(2))
        made.connections.reset()
    assert rests == [False, False, True, True, False, False]


def test_news_between_two_empty_answers_needs_no_rest() -> None:
    made = replica(follower())
    for ms, message in enumerate((fetched(), fetched(), fetched(high_watermark=9), fetched(high_watermark=9))):
        answer(made, message, now=later(ms))
        assert not made.connections.is_backing_off(2)


def test_bytes_of_a_stranger_are_a_sign_of_life_and_its_refusals_are_not() -> None:
    made = stranger()
    answer(made, fetched(leader_id=7, snapshot=(30, 5)), peer_id=7)
    download = state_of(made).download
    assert download is not None
    made.state = replace(state_of(made), download=replace(download, position=0))
    refused = answer(made, sliced(error=98, leader_id=7), peer_id=7)
    assert (kinds(refused), state_of(made).has_fetched) == (["AbandonDownload"], False)
    made.state = replace(state_of(made), download=replace(download, position=0))
    answer(made, sliced(leader_id=7), peer_id=7, now=Instant(mono_ms=NOW.mono_ms + 1, wall_ms=0))
    assert state_of(made).has_fetched


def test_a_batch_that_begins_within_the_log_is_another_history_when_it_keeps_coming() -> None:
    """Raft §5.3, Log Matching; no checksum covers the offset, in which a bit may flip on the way."""
    made = replica(follower(has_fetched=True))
    for base_offset in [8] * (FOREIGN_ANSWERS_MAX - 1) + [9] * (FOREIGN_ANSWERS_MAX - 1):
        with pytest.raises(ProtocolError, match=f"fetched batch at {base_offset}, but the log ends at 10"):
            answer(made, fetched(batch(base_offset, 12, 5), high_watermark=10))
        assert not made.has_given_up_leader
    report = only(twice(made, fetched(batch(9, 12, 5), high_watermark=10)), Report)
    assert report.is_alarm
    assert "other records than this one: it has a batch at 9, and this log ends at 10; if this node was" in report.text
    assert made.has_given_up_leader
    assert answer(made, fetched(batch(9, 12, 5), high_watermark=10)) == []
    assert made.log.end_offset == 10

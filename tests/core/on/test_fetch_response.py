"""Fetch at the follower: what it appends, where it truncates, and what it never does."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pykraft.core import messages
from pykraft.core.effects import AppendFetched, Effect, NotifyHighWatermark, Report, Send, TruncateTo
from pykraft.core.events import CommitHeard
from pykraft.core.on.fetch_response import ASKED_SIZE_BYTES_MIN, BATCHES_PER_ANSWER, on_commit_heard, valid_prefix
from pykraft.core.on.send_requests import send_fetch_to_leader
from pykraft.core.quarantine import Quarantine
from pykraft.core.replica import Replica
from pykraft.core.state import Follower, State
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.types import Epoch, NodeId, Offset
from tests.core.replicas import NOW, answer, candidate, done, follower, kinds, only, prospective, replica, twice
from tests.core.said import batch, fetched


def following() -> Replica:
    """Follows 2 in epoch 5; its log ends at 10 in epoch 3, everything below 4 is committed."""
    made = replica(follower())
    made.log.commit_to(Offset(4))
    return made


def state_of(made: Replica) -> Follower:
    assert isinstance(made.state, Follower)
    return made.state


@pytest.mark.conformance(47, 101)
def test_records_are_appended_and_the_leader_is_alive() -> None:
    made = following()
    found = answer(made, fetched(batch(10, 12, 3), batch(12, 15, 5), high_watermark=11))
    appended = only(found, AppendFetched)
    assert (appended.count, appended.end_offset) == (2, 15)
    assert (made.log.end_offset, made.log.last_epoch, made.log.flushed_end_offset) == (15, 5, 10)
    assert only(found, NotifyHighWatermark).high_watermark == 11
    assert (state_of(made).has_fetched, state_of(made).fetch_deadline_ms) == (True, NOW.mono_ms + 2_000)


@pytest.mark.conformance(47)
def test_nothing_new_is_a_sign_of_life_too() -> None:
    made = following()
    assert answer(made, fetched(high_watermark=None)) == []
    assert state_of(made).has_fetched


@pytest.mark.conformance(101, 144, "H72")
@pytest.mark.parametrize(
    ("batches", "count"),
    [
        ([(10, 12, 5), (12, 13, 6)], 1),
        ([(10, 12, 6)], 0),
        ([(10, 12, 2)], 0),
        ([(10, 12, 5), (12, 13, 4)], 1),
        ([(10, 12, 5), (13, 14, 5)], 1),
        ([(11, 12, 5)], 0),
        ([(10, 12, -1)], 0),
        ([(10, 12, 3), (12, 13, 3), (13, 14, 5)], 3),
    ],
)
def test_only_batches_that_continue_this_log_in_epochs_up_to_its_own_are_appended(
    batches: Sequence[tuple[int, int, int]], count: int
) -> None:
    made = following()
    given = [batch(*numbers) for numbers in batches]
    found = answer(made, fetched(*given))
    assert made.log.end_offset == (given[count - 1].end_offset if count else 10)
    assert ("AppendFetched" in kinds(found)) == (count > 0)
    assert ("Report" in kinds(found)) == (count < len(given))
    assert made.connections.is_backing_off(2) == (count == 0)
    assert state_of(made).has_fetched


@pytest.mark.conformance(144, "H71")
def test_bytes_that_are_no_batches_are_reported_and_those_before_them_appended() -> None:
    made = following()
    found = answer(made, fetched(batch(10, 11, 5), invalid="a crc at byte 80", high_watermark=11))
    assert only(found, AppendFetched).count == 1
    assert "a crc at byte 80" in only(found, Report).text
    assert state_of(made).high_watermark == 11
    assert not made.connections.is_backing_off(2)


@pytest.mark.conformance(101)
def test_a_batch_below_the_log_end_is_no_answer_to_this_fetch() -> None:
    made = following()
    before = made.state
    with pytest.raises(ProtocolError):
        answer(made, fetched(batch(9, 11, 5)))
    assert made.state is before
    assert made.log.end_offset == 10
    assert valid_prefix((), made.log.end, made) == ()


@pytest.mark.conformance(47, 90, 111)
@pytest.mark.parametrize(("told", "expected"), [(None, 4), (4, 4), (5, 5), (10, 10), (99, 10)])
def test_the_high_watermark_rises_as_far_as_the_log_reaches(told: int | None, expected: int) -> None:
    made = following()
    found = answer(made, fetched(high_watermark=told))
    assert state_of(made).high_watermark == expected
    assert ("NotifyHighWatermark" in kinds(found)) == (expected > 4)


def agreed() -> Replica:
    """As `following`; the leader has said that its log continues this one."""
    made = following()
    answer(made, fetched(high_watermark=4))
    assert state_of(made).has_agreed
    return made


def commit_heard(made: Replica, end_offset: int, epoch: int = 5) -> list[Effect]:
    on_commit_heard(made, CommitHeard(epoch=Epoch(epoch), end_offset=Offset(end_offset)), NOW)
    return done(made)


@pytest.mark.parametrize(("told", "expected"), [(-1, 4), (4, 4), (5, 5), (10, 10), (2**63 - 1, 10)])
def test_a_commit_that_is_heard_raises_the_high_watermark_as_far_as_the_log_reaches(told: int, expected: int) -> None:
    made = agreed()
    before = state_of(made)
    found = commit_heard(made, told)
    assert state_of(made) == replace(before, high_watermark=Offset(expected))
    assert made.log.committed_end_offset == expected
    assert kinds(found) == (["NotifyHighWatermark"] if expected > 4 else [])


def test_a_commit_is_not_heard_in_another_epoch_or_state_or_before_the_logs_agree() -> None:
    for epoch in (4, 6):
        assert commit_heard(agreed(), 9, epoch) == []
    assert commit_heard(following(), 9) == []
    assert commit_heard(replica(prospective(leader_id=2)), 9) == []
    damaged = agreed()
    damaged.log.quarantine = Quarantine(epoch=Epoch(5), until_offset=None, damages=(), is_cut=True)
    assert commit_heard(damaged, 9) == []
    given_up = agreed()
    given_up.given_up = (given_up.epoch, NodeId(2))
    assert commit_heard(given_up, 9) == []


def test_an_answer_that_was_on_its_way_when_a_commit_was_heard_contradicts_nothing() -> None:
    made = agreed()
    send_fetch_to_leader(made, state_of(made), NOW)
    commit_heard(made, 9)
    assert "Report" not in kinds(answer(made, fetched(high_watermark=6)))
    assert (made.high_watermark, made.has_given_up_leader) == (9, False)
    send_fetch_to_leader(made, state_of(made), NOW)
    assert "Report" not in kinds(answer(made, fetched(high_watermark=6)))
    assert "went back from 9 to 6" in only(answer(made, fetched(high_watermark=6)), Report).text


@pytest.mark.conformance(50, 104)
@pytest.mark.parametrize(("diverging", "end"), [((4, 1), 4), ((8, 1), 6), ((7, 3), 7), ((7, 2), 6)])
def test_the_log_is_cut_where_it_parts_from_the_leaders(diverging: tuple[int, int], end: int) -> None:
    made = following()
    found = answer(made, fetched(diverging=diverging, high_watermark=99))
    assert only(found, TruncateTo).end_offset == end
    assert (made.log.end_offset, made.log.flushed_end_offset, made.log.unflushed_count) == (end, end, 1)
    assert kinds(found) == ["Report", "TruncateTo"]
    assert f"truncating the log from 10 to {end}: node 2, the leader of epoch 5, has" in only(found, Report).text
    assert state_of(made).has_fetched


@pytest.mark.parametrize(("diverging", "end"), [((9, 3, 7), 7), ((9, 3, 9), 9), ((9, 2, 7), 6), ((5, 0, 4), 4)])
def test_a_log_that_parts_within_a_batch_is_cut_before_that_one(diverging: tuple[int, int, int], end: int) -> None:
    made = following()
    found = answer(made, fetched(diverging=diverging))
    assert only(found, TruncateTo).end_offset == end
    assert made.log.end_offset == end


@pytest.mark.conformance(104)
def test_committed_records_are_never_cut() -> None:
    made = following()
    found = twice(made, fetched(diverging=(3, 1)))
    assert "below 4 is committed" in only(found, Report).text
    assert made.log.end_offset == 10


@pytest.mark.conformance(104)
def test_what_was_committed_in_another_state_is_not_cut_either() -> None:
    made = replica(replace(follower(), high_watermark=None))
    made.log.commit_to(Offset(4))
    assert "below 4 is committed" in only(twice(made, fetched(diverging=(3, 1))), Report).text


@pytest.mark.parametrize("diverging", [(10, 3), (99, 9), (-1, 3), (4, -1)])
def test_a_divergence_that_cuts_nothing_makes_no_sense(diverging: tuple[int, int]) -> None:
    made = following()
    with pytest.raises(ProtocolError):
        answer(made, fetched(diverging=diverging))
    assert made.log.end_offset == 10


@pytest.mark.conformance(122)
def test_a_snapshot_in_the_place_of_records_is_fetched() -> None:
    made = following()
    assert kinds(answer(made, fetched(snapshot=(30, 5)))) == ["BeginDownload"]
    assert state_of(made).has_fetched


@pytest.mark.parametrize(
    "message", [fetched(batch(10, 11, 5), error=ErrorCode.UNKNOWN_SERVER_ERROR), fetched(batch(10, 11, 4), epoch=4)]
)
def test_an_error_or_an_older_epoch_brings_nothing(message: messages.FetchResponse) -> None:
    made = following()
    assert answer(made, message) == []
    assert made.log.end_offset == 10
    assert not state_of(made).has_fetched


@pytest.mark.conformance(43)
def test_only_a_follower_takes_records() -> None:
    made = replica(prospective(leader_id=2))
    assert answer(made, fetched(batch(10, 11, 5))) == []
    assert made.log.end_offset == Offset(10)


def test_records_in_the_answer_that_first_names_the_leader_come_with_the_next_fetch() -> None:
    """A difference from Kafka (ADR 031)."""
    made = replica(prospective())
    answer(made, fetched(batch(10, 11, 5)))
    assert (state_of(made).leader_id, state_of(made).has_fetched) == (2, False)
    assert made.log.end_offset == Offset(10)


@pytest.mark.conformance(43, "H72")
@pytest.mark.parametrize(
    ("state", "message"),
    [
        (prospective(leader_id=2), fetched(batch(10, 11, 5), high_watermark=11)),
        (candidate(), fetched(batch(10, 11, 5), high_watermark=11, leader_id=None)),
        (follower(epoch=6, leader_id=3), fetched(batch(10, 11, 5), high_watermark=11)),
    ],
)
def test_records_of_another_time_are_ignored_even_if_their_answer_is_awaited(
    state: State, message: messages.FetchResponse
) -> None:
    made = replica(state)
    assert answer(made, message) == []
    assert (made.log.end_offset, made.state) == (10, state)


def test_small_batches_are_asked_for_in_parts() -> None:
    """An answer of 4 MiB held 60,000 batches, and a follower did nothing else for half a second."""
    made = following()
    most = made.config.fetch_size_bytes_max
    for size_bytes, asked in ((10**6, most), (70, 70 * BATCHES_PER_ANSWER), (1, ASKED_SIZE_BYTES_MIN), (10**6, most)):
        end = made.log.end_offset
        answer(made, fetched(replace(batch(end, end + 1, 5), size_bytes=size_bytes)))
        made.connections.reset()
        send_fetch_to_leader(made, state_of(made), NOW)
        request = only(done(made), Send).message
        assert isinstance(request, messages.FetchRequest)
        assert request.size_bytes_max == asked

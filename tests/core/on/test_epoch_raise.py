"""Requests raise the epoch within a budget; answers of peers dialed at a trusted endpoint always may.

Source: ours; Raft dissertation §6.2.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from pykraft.core import messages
from pykraft.core.effects import Effect, Reply, Report
from pykraft.core.epoch_budget import EPOCHS_PER_DAY, FREE_RAISES
from pykraft.core.on.epoch_raise import ALARM_PERIOD_MS
from pykraft.core.replica import Replica
from pykraft.core.state import State
from pykraft.errors import ErrorCode
from pykraft.types import EPOCH_MAX, Endpoint, Instant, Offset
from tests.core.replicas import (
    NOW,
    answer,
    ask,
    candidate,
    follower,
    key,
    later,
    leader,
    listeners,
    only,
    prospective,
    replica,
    unattached,
)
from tests.core.said import begin, end, fetched, vote, voted

FAR = 5 + EPOCHS_PER_DAY + 1


def reports(found: list[Effect]) -> list[Report]:
    return [effect for effect in found if isinstance(effect, Report)]


def error_of(found: list[Effect]) -> int:
    message = only(found, Reply).message
    assert isinstance(
        message, messages.VoteResponse | messages.BeginQuorumEpochResponse | messages.EndQuorumEpochResponse
    )
    assert message.epoch <= EPOCH_MAX
    return message.error


@pytest.mark.parametrize("state", [unattached(), follower(has_fetched=True), leader(), candidate()])
@pytest.mark.parametrize(
    "message",
    [
        vote(epoch=EPOCH_MAX),
        vote(epoch=FAR, pre_vote=True),
        vote(epoch=FAR, candidate=9),
        begin(epoch=FAR),
        begin(epoch=EPOCH_MAX, leader_id=9),
        end(epoch=FAR),
    ],
)
def test_no_request_takes_more_epochs_than_there_are_for_a_day(state: State, message: messages.Request) -> None:
    made = replica(state)
    found = ask(made, message)
    assert (error_of(found), made.epoch, made.refused_epochs) == (ErrorCode.BROKER_NOT_AVAILABLE, 5, 1)
    (alarm,) = reports(found)
    assert alarm.is_alarm
    assert "in the place of 5: refused, more than 1048576 a day" in alarm.text


def test_an_exhausted_budget_is_told_once_an_hour() -> None:
    made = replica(unattached())
    told = [
        len(reports(ask(made, vote(epoch=EPOCH_MAX), now=later(ms))))
        for ms in (0, 1, ALARM_PERIOD_MS - 1, ALARM_PERIOD_MS, ALARM_PERIOD_MS + 1)
    ]
    assert told == [1, 0, 0, 1, 0]
    assert made.refused_epochs == 5


def rising(made: Replica, candidate_id: int, count: int) -> list[bool]:
    """Votes with rising epochs, each a while after the one before; whether each was taken."""
    taken = []
    for number in range(count):
        before = made.epoch
        ask(made, vote(epoch=before + 1, candidate=candidate_id), now=later(number))
        taken.append(made.epoch > before)
    return taken


def test_a_stranger_that_never_wins_is_heard_less_and_less() -> None:
    made = replica(unattached())
    assert rising(made, 9, FREE_RAISES + 3) == [True] * (FREE_RAISES + 1) + [False, False]
    assert rising(made, 8, 1) == [False]
    assert made.refused_epochs == 3


def test_a_voter_has_to_wait_only_while_the_leader_is_known_to_be_there() -> None:
    made = replica(unattached())
    assert rising(made, 3, FREE_RAISES + 3) == [True] * (FREE_RAISES + 3)
    made.state = replace(follower(epoch=made.epoch), has_fetched=True)
    assert rising(made, 3, 1) == [False]
    made.state = leader(epoch=made.epoch)
    assert rising(made, 3, 1) == [False]
    made.state = follower(epoch=made.epoch)
    assert rising(made, 3, 1) == [True]


def test_another_directory_id_makes_a_stranger() -> None:
    made = replica(unattached())
    rising(made, 9, FREE_RAISES + 1)
    other = replace(vote(epoch=made.epoch + 1), candidate=replace(key(3), directory_id=key(9).directory_id))
    assert error_of(ask(made, other)) == ErrorCode.BROKER_NOT_AVAILABLE


def test_a_pause_is_told() -> None:
    made = replica(unattached())
    rising(made, 9, FREE_RAISES)
    found = ask(made, vote(epoch=made.epoch + 1, candidate=9), now=later(9))
    assert (
        "such as node 9, raised the epoch again, to 9, and did not win: ignored for 2000 ms" in only(found, Report).text
    )
    rising(made, 3, FREE_RAISES)
    found = ask(made, vote(epoch=made.epoch + 1), now=later(9))
    assert "voter 3 raised the epoch again" in only(found, Report).text


def test_a_leader_under_which_something_is_committed_has_won() -> None:
    made = replica(unattached())
    rising(made, 2, FREE_RAISES)
    ask(made, begin(epoch=made.epoch))
    answer(made, fetched(epoch=made.epoch, high_watermark=9))
    assert rising(made, 2, 1) == [True]
    assert not made.epoch_budget.must_wait(key(2).id, NOW.mono_ms)


@pytest.mark.parametrize("peer_id", [2, -2])
def test_answers_of_voters_and_bootstrap_servers_raise_the_epoch_as_far_as_they_say(peer_id: int) -> None:
    made = replica(unattached(), bootstrap=(Endpoint("b", 1),))
    answer(made, fetched(epoch=FAR, leader_id=None, error=ErrorCode.NOT_LEADER_OR_FOLLOWER), peer_id=peer_id)
    assert made.epoch == FAR


def test_an_answer_of_a_voter_that_is_followed_where_it_should_be_counts_too() -> None:
    made = replica(follower())
    answer(made, fetched(epoch=FAR, leader_id=None, error=ErrorCode.FENCED_LEADER_EPOCH))
    assert made.epoch == FAR


def test_an_answer_of_a_stranger_or_from_elsewhere_stays_within_the_budget() -> None:
    elsewhere = replace(follower(), leader_listeners=listeners(9))
    for state, peer_id in ((follower(leader_id=9), 9), (elsewhere, 2), (prospective(), 9)):
        made = replica(state)
        found = answer(made, voted(epoch=FAR, leader_id=None), peer_id=peer_id)
        assert [report.is_alarm for report in reports(found)] == [True]
        assert (made.epoch, made.connections.is_backing_off(peer_id)) == (5, True)
        answer(made, voted(epoch=6, leader_id=None), peer_id=peer_id)
        assert made.epoch == 6


def test_the_budget_comes_back_with_time() -> None:
    made = replica(unattached())
    ask(made, vote(epoch=5 + EPOCHS_PER_DAY))
    assert error_of(ask(made, vote(epoch=made.epoch + 1, candidate=2))) == ErrorCode.BROKER_NOT_AVAILABLE
    a_day_later = Instant(mono_ms=NOW.mono_ms + 86_400_000, wall_ms=0)
    message = vote(epoch=made.epoch + EPOCHS_PER_DAY, candidate=2, end=(10, 3))
    assert error_of(ask(made, message, now=a_day_later)) == ErrorCode.NONE
    assert made.log.end_offset == Offset(10)

"""What each state knows, waits for, and grants."""

from collections.abc import Sequence
from dataclasses import fields, replace

import pytest

from pykraft.core import enter_state
from pykraft.core.effects import Effect, NotifyHighWatermark, Reply, Report
from pykraft.core.election import NEVER_MS
from pykraft.core.enter_state import check_quorum_deadline_ms
from pykraft.core.events import ResponseReceived
from pykraft.core.leader.appending import advance_high_watermark
from pykraft.core.messages import VoteRequest, VoteResponse
from pykraft.core.on.send_requests import send_fetch_to_leader
from pykraft.core.on.timer import next_deadline_ms, poll
from pykraft.core.replica import Replica
from pykraft.core.state import OFTEN_COUNT, Candidate, Follower, Leader, Prospective, Resigned, SnapshotDownload
from pykraft.types import NO_LISTENERS, Endpoint, Instant, Io, Listeners, NodeId, Offset, OffsetAndEpoch, ReplicaKey
from tests.core.replicas import (
    EPOCH,
    LATER_MS,
    LISTENER,
    NOW,
    answer,
    ask,
    candidate,
    directory,
    done,
    follower,
    key,
    kinds,
    later,
    leader,
    listeners,
    only,
    prospective,
    replica,
    resigned,
    sent,
    tally,
    twice,
    unattached,
    voter_set,
)
from tests.core.said import begun, ended, fetch, fetched, vote, voted

OTHER_DIRECTORY = ReplicaKey(NodeId(3), directory(9))


def asked(voted: ReplicaKey, candidate: ReplicaKey) -> bool:
    made = replica(replace(unattached(), voted=voted))
    request: VoteRequest = replace(vote(epoch=5, end=(0, 0)), candidate=candidate)
    message = only(ask(made, request), Reply).message
    assert isinstance(message, VoteResponse)
    assert made.voted == voted
    return message.vote_granted


@pytest.mark.conformance(92, 94, "H34")
@pytest.mark.parametrize(
    ("voted", "candidate", "granted"),
    [
        (ReplicaKey(NodeId(3)), key(3), True),
        (ReplicaKey(NodeId(3)), OTHER_DIRECTORY, True),
        (ReplicaKey(NodeId(3)), ReplicaKey(NodeId(3)), True),
        (ReplicaKey(NodeId(3)), key(2), False),
        (key(3), key(3), True),
        (key(3), OTHER_DIRECTORY, False),
        (key(3), ReplicaKey(NodeId(3)), False),
        (key(3), key(2), False),
    ],
)
def test_a_vote_remembered_with_a_directory_is_for_that_one_only(
    voted: ReplicaKey, candidate: ReplicaKey, granted: bool
) -> None:
    assert asked(voted, candidate) is granted


@pytest.mark.conformance(92, "H34")
def test_a_leader_without_endpoints_is_kept_in_mind() -> None:
    made = replica(unattached(leader_id=9))
    assert (made.leader_id, made.has_remote_leader, made.has_reachable_leader) == (9, True, False)
    poll(made, Instant(mono_ms=LATER_MS, wall_ms=0))
    assert (made.role, made.leader_id) == ("prospective", 9)


@pytest.mark.conformance(89)
def test_it_never_asks_itself_so_nobody_can_refuse_in_its_name() -> None:
    made = replica(prospective())
    poll(made, NOW)
    assert sent(done(made)) == [(2, "VoteRequest"), (3, "VoteRequest")]
    forged = ResponseReceived(peer_id=1, correlation_id=0, message=voted(granted=False))
    assert not made.connections.received(forged.peer_id, forged.correlation_id)
    assert isinstance(made.state, Prospective)
    assert made.state.tally == tally()


@pytest.mark.conformance(88)
def test_its_own_vote_cannot_be_taken_back() -> None:
    made = replica(candidate())
    before = made.state
    answer(made, voted(granted=False), peer_id=1)
    assert made.state is before
    assert sent(answer(made, voted(granted=False), peer_id=3)) == []
    assert isinstance(made.state, Candidate)
    assert made.state.tally == tally(rejected=(3,))
    assert made.state.voted == key(1)


@pytest.mark.conformance(88)
def test_only_a_voter_can_be_one() -> None:
    made = replica(prospective(), voters=voter_set(2, 3))
    with pytest.raises(AssertionError, match="an observer does not campaign"):
        enter_state.to_candidate(made, NOW)


@pytest.mark.conformance(88)
def test_it_knows_no_leader_and_no_endpoints() -> None:
    made = replica(candidate())
    assert (made.leader_id, made.leader_listeners, made.has_reachable_leader) == (None, Listeners(), False)
    assert made.reply_listeners("CONTROLLER") == Listeners()


@pytest.mark.conformance(91, "H27")
def test_it_waits_for_everybody_but_itself_and_no_stranger() -> None:
    made = replica(leader())
    enter_state.to_resigned(made, NOW)
    assert isinstance(made.state, Resigned)
    assert made.state.unacknowledged == {2, 3}
    answer(made, ended(), peer_id=9)
    assert made.state.unacknowledged == {2, 3}
    answer(made, ended(), peer_id=2)
    assert made.state.unacknowledged == {3}


@pytest.mark.conformance(91)
def test_when_all_have_answered_nothing_more_is_said() -> None:
    made = replica(resigned())
    for peer_id in (2, 3):
        answer(made, ended(), peer_id=peer_id)
    poll(made, NOW)
    assert sent(done(made)) == []


def leading(size: int, *, end_offset: int = 13) -> tuple[Replica, Leader]:
    """One of ``size`` voters; its epoch begins at 10, and its flushed log ends at ``end_offset``."""
    members = voter_set(*range(1, size + 1))
    state = leader(voters=members)
    made = replica(state, voters=members)
    for offset in range(10, end_offset):
        made.log.append(base_offset=Offset(offset), end_offset=Offset(offset + 1), epoch=EPOCH)
    made.log.submit(Io(1))
    made.log.persist(Io(1))
    return made, state


def high_watermarks(found: Sequence[Effect]) -> list[int]:
    return [effect.high_watermark for effect in found if isinstance(effect, NotifyHighWatermark)]


@pytest.mark.conformance(93)
@pytest.mark.parametrize(
    ("size", "fetches", "expected"),
    [
        (1, [], 13),
        (2, [], None),
        (2, [(2, 11)], 11),
        (2, [(2, 13)], 13),
        (3, [], None),
        (3, [(2, 12)], 12),
        (3, [(2, 11), (3, 13)], 13),
        (3, [(2, 12), (3, 11)], 12),
    ],
)
def test_the_high_watermark_of_one_two_and_three_voters(
    size: int, fetches: list[tuple[int, int]], expected: int | None
) -> None:
    made, state = leading(size)
    advance_high_watermark(made, state)
    for node_id, offset in fetches:
        ask(made, fetch(replica=node_id, at=(offset, 5)))
    assert state.high_watermark == expected


@pytest.mark.conformance(93)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_records_of_older_epochs_alone_are_not_committed(size: int) -> None:
    made, state = leading(size, end_offset=10)
    for node_id in range(2, size + 1):
        ask(made, fetch(replica=node_id, at=(10, 3)))
    advance_high_watermark(made, state)
    assert state.high_watermark is None


@pytest.mark.conformance(93)
def test_the_same_word_twice_changes_nothing() -> None:
    made, state = leading(3)
    assert high_watermarks(ask(made, fetch(at=(12, 5)))) == [12]
    assert high_watermarks(ask(made, fetch(at=(12, 5)))) == []
    assert high_watermarks(ask(made, fetch(at=(11, 5)))) == []
    assert state.high_watermark == 12
    assert state.progress.voters[NodeId(2)].end_offset == 11


@pytest.mark.conformance(93)
def test_the_own_log_does_not_shrink() -> None:
    made, state = leading(3)
    ask(made, fetch(at=(12, 5)))
    assert state.high_watermark == 12
    with pytest.raises(AssertionError, match="never cut"):
        made.log.truncate_to(Offset(11))


@pytest.mark.conformance(93)
def test_an_acknowledgement_of_begin_quorum_epoch_from_anybody_changes_nothing() -> None:
    made, state = leading(3)
    before = replace(state)
    for peer_id in (2, 9):
        answer(made, begun(), peer_id=peer_id)
    assert made.state == before
    assert not state.fetched_voters


@pytest.mark.conformance(93)
def test_who_should_lead_next() -> None:
    _, state = leading(3)
    state.progress.of(key(3)).fetched(Offset(11), Offset(13), NOW)
    assert state.progress.by_fetch_offset(without=NodeId(1)) == (key(3), key(2))
    state.progress.of(key(2)).fetched(Offset(11), Offset(13), NOW)
    assert state.progress.by_fetch_offset(without=NodeId(1)) == (key(2), key(3))


@pytest.mark.conformance(93)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_leader_that_nobody_fetches_from_resigns_unless_it_is_alone(size: int) -> None:
    made, state = leading(size)
    state.check_quorum_deadline_ms = check_quorum_deadline_ms(made, NOW)
    assert (state.check_quorum_deadline_ms == NEVER_MS) == (size == 1)
    poll(made, later(2_999))
    assert made.role == "leader"
    poll(made, later(3_000))
    assert made.role == ("leader" if size == 1 else "resigned")


@pytest.mark.conformance(93)
def test_begin_quorum_epoch_goes_out_each_half_fetch_timeout_to_who_does_not_fetch() -> None:
    made, state = leading(3)
    state.begin_quorum_deadline_ms = NOW.mono_ms
    poll(made, NOW)
    assert sent(done(made)) == [(2, "BeginQuorumEpochRequest"), (3, "BeginQuorumEpochRequest")]
    assert state.begin_quorum_deadline_ms == NOW.mono_ms + 1_000
    made.connections.reset()
    state.progress.of(key(2)).fetched(Offset(10), Offset(13), later(500))
    poll(made, later(999))
    assert sent(done(made)) == []
    poll(made, later(1_000))
    assert sent(done(made)) == [(3, "BeginQuorumEpochRequest")]


@pytest.mark.parametrize(
    ("advances_ms", "expected"),
    [
        ([], False),
        ([*range(OFTEN_COUNT - 1)], False),
        ([100] * OFTEN_COUNT, True),
        ([100 - 5 * OFTEN_COUNT] + [100] * (OFTEN_COUNT - 1), True),
        ([99 - 5 * OFTEN_COUNT] + [100] * (OFTEN_COUNT - 1), False),
        ([0] + [100] * OFTEN_COUNT, True),
    ],
)
def test_how_often_the_high_watermark_advances_is_an_average(advances_ms: list[int], expected: bool) -> None:
    _, state = leading(3)
    state.advanced_ms.extend(advances_ms)
    assert state.advances_every(5, 100) is expected


DUE = Instant(mono_ms=LATER_MS, wall_ms=0)


def test_a_leader_without_endpoints_cannot_be_followed() -> None:
    with pytest.raises(AssertionError):
        Follower(
            epoch=EPOCH, leader_id=NodeId(2), leader_listeners=NO_LISTENERS, fetch_deadline_ms=0, update_deadline_ms=0
        )


@pytest.mark.conformance(90, "H80")
def test_it_campaigns_when_its_time_is_over_and_a_fetch_gives_it_more() -> None:
    made = replica(follower())
    assert next_deadline_ms(made) == LATER_MS
    poll(made, Instant(mono_ms=LATER_MS - 1, wall_ms=0))
    assert made.role == "follower"
    fetching = replica(follower())
    answer(fetching, fetched())
    poll(fetching, DUE)
    assert (fetching.role, next_deadline_ms(fetching)) == ("follower", NOW.mono_ms + 2_000)
    poll(made, DUE)
    assert made.role == "prospective"


@pytest.mark.conformance(90)
@pytest.mark.parametrize(("known", "told"), [(4, None), (4, 4), (None, None)])
def test_a_high_watermark_that_is_not_told_or_told_again_changes_nothing(known: int | None, told: int | None) -> None:
    made = replica(replace(follower(), high_watermark=None if known is None else Offset(known)))
    found = answer(made, fetched(high_watermark=told))
    assert made.high_watermark == known
    assert "NotifyHighWatermark" not in kinds(found)


@pytest.mark.conformance(90)
@pytest.mark.parametrize("told", [3, 0])
def test_a_leader_that_takes_the_high_watermark_back_is_not_listened_to(told: int) -> None:
    made = replica(replace(follower(), high_watermark=Offset(4)))
    assert f"went back from 4 to {told}" in only(twice(made, fetched(high_watermark=told)), Report).text
    assert (made.high_watermark, made.has_given_up_leader) == (4, True)


@pytest.mark.conformance(90)
def test_its_leader_is_reached_on_the_default_listener_or_not_at_all() -> None:
    made = replica(follower(), bootstrap=(Endpoint("b", 1),))
    state = made.state
    assert isinstance(state, Follower)
    send_fetch_to_leader(made, state, NOW)
    assert sent(done(made)) == [(2, "FetchRequest")]
    elsewhere = replace(follower(), leader_listeners=Listeners((("OTHER", Endpoint("n2", 1)),)))
    made = replica(elsewhere, bootstrap=(Endpoint("b", 1),))
    send_fetch_to_leader(made, elsewhere, NOW)
    assert sent(done(made)) == [(-2, "FetchRequest")]
    assert made.reply_listeners(LISTENER) == Listeners()
    assert made.reply_listeners("other") == Listeners((("OTHER", Endpoint("n2", 1)),))
    assert replica(follower()).reply_listeners(LISTENER) == listeners(2)


def test_a_copy_keeps_every_other_field() -> None:
    full = Follower(
        epoch=EPOCH,
        leader_id=NodeId(2),
        leader_listeners=follower().leader_listeners,
        voted=ReplicaKey(NodeId(2)),
        high_watermark=Offset(3),
        fetch_deadline_ms=5,
        part_deadline_ms=11,
        early_deadline_ms=6,
        has_fetched=True,
        is_corrected=True,
        is_doubted=True,
        has_agreed=True,
        empty_answers=7,
        empty_answer_ms=8,
        told_end_offset=Offset(9),
        successors=(ReplicaKey(NodeId(3)),),
        update_deadline_ms=10,
        has_updated=True,
        download=SnapshotDownload(snapshot_id=OffsetAndEpoch(Offset(4), EPOCH)),
    )
    unset = [field.name for field in fields(Follower) if getattr(full, field.name) in (None, False)]
    assert unset == ["leader_has_left"], "with it, no answer counts"
    assert full.knows(Offset(4)) == replace(full, high_watermark=Offset(4))
    assert full.heard(NOW, 2_000) == replace(full, fetch_deadline_ms=NOW.mono_ms + 2_000, early_deadline_ms=None)
    gone = replace(full, leader_has_left=True)
    assert gone.knows(Offset(4)) == replace(gone, high_watermark=Offset(4))

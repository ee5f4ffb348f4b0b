"""What each state does when time passes, what it sends, and when it must be woken."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from pykraft.config import RaftConfig
from pykraft.core.effects import AppendBatches, CompleteShutdown, Effect, ReplyFetch, Report
from pykraft.core.election import NEVER_MS
from pykraft.core.leader.parked import ParkedFetch
from pykraft.core.on.timer import next_deadline_ms, poll
from pykraft.core.replica import Replica
from pykraft.core.state import Leader, Prospective, State, Unattached
from pykraft.types import EPOCH_MAX, Instant, Io
from tests.core.replicas import (
    LATER_MS,
    LISTENER,
    NOW,
    STATES,
    candidate,
    done,
    follower,
    later,
    leader,
    only,
    prospective,
    replica,
    resigned,
    sent,
    tally,
    unattached,
    voter_set,
)
from tests.core.said import fetch

DUE = Instant(mono_ms=LATER_MS, wall_ms=0)
NOT_DUE = Instant(mono_ms=LATER_MS - 1, wall_ms=0)


def after(made: Replica, now: Instant) -> str:
    poll(made, now)
    return f"{made.role} {made.epoch} {made.leader_id}"


@pytest.mark.conformance(37, 68, 69, 90, 91, 92, "H11", "H13", "H80", "H81", "H90")
@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (unattached(), "prospective 5 None"),
        (unattached(voted=3, leader_id=2), "prospective-voted 5 2"),
        (prospective(), "prospective 5 None"),
        (prospective(leader_id=2), "follower 5 2"),
        (candidate(), "prospective-voted 5 None"),
        (follower(), "prospective 5 2"),
        (resigned(), "prospective 6 None"),
    ],
)
def test_a_voters_time_is_over(state: State, expected: str) -> None:
    made = replica(state)
    before = after(made, NOT_DUE)
    assert made.state is state
    assert before == f"{made.role} 5 {made.leader_id}"
    assert after(made, DUE) == expected


@pytest.mark.conformance(37)
@pytest.mark.parametrize("state", [unattached(), follower()])
def test_an_observer_never_campaigns(state: State) -> None:
    made = replica(state, local_id=4)
    poll(made, DUE)
    assert made.state is state
    assert next_deadline_ms(made) == DUE.mono_ms + 2_000


@pytest.mark.parametrize("name", [name for name in STATES if not name.startswith(("follower", "leader"))])
def test_who_leaves_campaigns_no_more(name: str) -> None:
    made = replica(STATES[name]())
    made.shutdown_deadline_ms = DUE.mono_ms + 9
    before = made.state
    poll(made, DUE)
    assert made.state is before


@pytest.mark.parametrize("make", [unattached, candidate, follower, resigned])
def test_there_is_no_epoch_after_the_last(make: Callable[..., State]) -> None:
    state = make(epoch=EPOCH_MAX)
    made = replica(state)
    poll(made, DUE)
    assert made.state is state


def test_a_campaign_ends_when_this_replica_is_no_voter_any_more() -> None:
    made = replica(prospective(), voters=voter_set(2, 3))
    poll(made, NOW)
    assert isinstance(made.state, Unattached)


@pytest.mark.parametrize(
    "state", [unattached(), prospective(), prospective(leader_id=2), candidate(), follower(), resigned()]
)
def test_timeouts_of_nothing_come_to_rest(state: State) -> None:
    config = RaftConfig(election_timeout_ms=0, fetch_timeout_ms=0, request_timeout_ms=0, retry_backoff_ms=0)
    made = replica(state, config=config)
    for ms in range(500, 520):
        poll(made, later(ms))
        done(made)
        deadline_ms = next_deadline_ms(made)
        assert deadline_ms is not None


@pytest.mark.conformance("H39")
@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (unattached(), ["FetchRequest"]),
        (prospective(count=tally(rejected=(3,))), ["VoteRequest"]),
        (prospective(count=tally(rejected=(2, 3))), []),
        (candidate(), ["VoteRequest", "VoteRequest"]),
        (candidate(count=tally(rejected=(2, 3))), []),
        (follower(), ["FetchRequest"]),
        (replace(leader(), begin_quorum_deadline_ms=0), ["BeginQuorumEpochRequest", "BeginQuorumEpochRequest"]),
        (leader(), []),
        (resigned(), ["EndQuorumEpochRequest", "EndQuorumEpochRequest"]),
    ],
)
def test_what_each_state_says(state: State, expected: list[str]) -> None:
    made = replica(state)
    poll(made, NOW)
    assert [name for _, name in sent(done(made))] == expected
    poll(made, NOW)
    assert sent(done(made)) == []


def test_who_leaves_looks_for_no_leader() -> None:
    made = replica(unattached())
    made.shutdown_deadline_ms = DUE.mono_ms
    poll(made, NOW)
    assert done(made) == []


def reason(found: list[Effect]) -> str:
    return only(found, Report).text


@pytest.mark.conformance("H88")
def test_a_leader_without_a_majority_resigns() -> None:
    made = replica(leader())
    poll(made, later(2_999))
    assert isinstance(made.state, Leader)
    done(made)
    poll(made, later(3_000))
    assert made.role == "resigned"
    assert "no majority has fetched for 3000 ms" in reason(done(made))


@pytest.mark.parametrize("wish", ["resign", "shut down"])
def test_a_leader_resigns_when_it_is_asked_to(wish: str) -> None:
    state = leader()
    made = replica(state)
    state.resign_requested = wish == "resign"
    made.shutdown_deadline_ms = None if wish == "resign" else NOW.mono_ms + 9
    poll(made, NOW)
    assert made.role == "resigned"
    assert ("application" if wish == "resign" else "shuts down") in reason(done(made))


@pytest.mark.parametrize("voters", [(1,), (1, 2, 3)])
def test_a_leader_whose_disk_stalls_resigns_unless_it_is_alone(voters: tuple[int, ...]) -> None:
    state = replace(
        leader(voters=voter_set(*voters)), check_quorum_deadline_ms=NEVER_MS, begin_quorum_deadline_ms=NEVER_MS
    )
    made = replica(state, voters=voter_set(*voters))
    made.outbox.next_log_io()
    done(made)
    is_alone = voters == (1,)
    assert next_deadline_ms(made) == (None if is_alone else NOW.mono_ms + 2_000)
    poll(made, later(1_999))
    assert made.state is state
    poll(made, later(2_001))
    assert (made.state is state) == is_alone
    assert is_alone or "storage has not finished a write for 2001 ms" in reason(done(made))


@pytest.mark.conformance(112, 117)
def test_a_leader_appends_what_has_lingered_and_answers_who_has_waited() -> None:
    state = leader()
    state.accumulation.add(handle=1, count=1, size_bytes=1, now=NOW)
    made = replica(state)
    made.parked.park(ParkedFetch(request_id=4, listener=LISTENER, request=fetch(), deadline_ms=NOW.mono_ms))
    poll(made, NOW)
    found = done(made)
    assert only(found, ReplyFetch).request_id == 4
    assert only(found, AppendBatches).batches[0].handles == (1,)


@pytest.mark.conformance(44, 45, "H38")
@pytest.mark.parametrize(
    ("state", "local_id", "voters", "is_graceful"),
    [
        (follower(), 1, (1, 2, 3), True),
        (unattached(leader_id=2), 1, (1, 2, 3), True),
        (unattached(), 4, (1, 2, 3), True),
        (unattached(), None, (1, 2, 3), True),
        (leader(voters=voter_set(1)), 1, (1,), True),
        (leader(), 1, (1, 2, 3), None),
        (candidate(), 1, (1, 2, 3), None),
    ],
)
def test_who_may_leave_at_once(
    state: State, local_id: int | None, voters: tuple[int, ...], is_graceful: bool | None
) -> None:
    made = replica(state, local_id=local_id, voters=voter_set(*voters))
    made.shutdown_deadline_ms = NOW.mono_ms + 9
    poll(made, NOW)
    found = done(made)
    assert made.is_stopped == bool(is_graceful)
    if is_graceful:
        assert only(found, CompleteShutdown).graceful
        assert sent(found) == []
        assert next_deadline_ms(made) is None
    else:
        assert next_deadline_ms(made) == NOW.mono_ms + 9
        poll(made, later(9))
        assert not only(done(made), CompleteShutdown).graceful


@pytest.mark.parametrize("state", [resigned(), candidate(), prospective(), unattached()])
@pytest.mark.parametrize(("refused_by", "is_graceful"), [({2, 3}, True), ({2, 3, -1}, True), ({3, -1}, False)])
def test_the_last_voter_leaves_at_once(state: State, refused_by: set[int], is_graceful: bool) -> None:
    made = replica(state)
    made.refused_by = refused_by
    poll(made, NOW)
    assert not made.is_stopped, "it was not asked to leave"
    made.shutdown_deadline_ms = NOW.mono_ms + 9
    poll(made, NOW)
    assert made.is_stopped == is_graceful
    found = done(made)
    assert [effect.graceful for effect in found if isinstance(effect, CompleteShutdown)] == [True] * is_graceful
    said = [effect.text for effect in found if isinstance(effect, Report)]
    assert ("no other voter is running, so nobody takes over" in said) == is_graceful


@pytest.mark.parametrize(
    ("state", "leaves", "expected"),
    [
        (unattached(), False, LATER_MS),
        (prospective(), False, LATER_MS),
        (candidate(), False, LATER_MS),
        (follower(), False, LATER_MS),
        (resigned(), False, LATER_MS),
        (leader(), False, NOW.mono_ms + 1_000),
        (candidate(), True, NOW.mono_ms + 9_000),
        (resigned(), True, NOW.mono_ms + 9_000),
    ],
)
def test_when_to_wake_up(state: State, leaves: bool, expected: int) -> None:
    made = replica(state)
    made.shutdown_deadline_ms = NOW.mono_ms + 9_000 if leaves else None
    assert next_deadline_ms(made) == expected


@pytest.mark.conformance(24, "H32")
def test_what_lingers_and_who_waits_wakes_a_leader_up() -> None:
    state = leader()
    made = replica(state, config=RaftConfig(accumulated_batches_max=1))
    made.parked.park(ParkedFetch(request_id=4, listener=LISTENER, request=fetch(), deadline_ms=NOW.mono_ms + 7))
    assert next_deadline_ms(made) == NOW.mono_ms + 7
    state.accumulation.add(handle=1, count=1, size_bytes=1, now=NOW)
    assert next_deadline_ms(made) == NOW.mono_ms
    made.log.submit(Io(1))
    assert next_deadline_ms(made) == NOW.mono_ms + 7


def test_nothing_wakes_an_observer_that_waits_for_nothing() -> None:
    assert next_deadline_ms(replica(unattached(), local_id=4)) is None


@pytest.mark.interpreted
def test_a_state_that_never_rests_is_our_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    made = replica(unattached())

    def turn(replica: Replica, now: Instant) -> None:
        replica.state = prospective()

    monkeypatch.setattr("pykraft.core.on.timer._pass_deadlines", turn)
    with pytest.raises(AssertionError, match="never comes to rest"):
        poll(made, NOW)
    assert isinstance(made.state, Prospective)

"""The core as a whole: the start-up table, every event in every state, and what belongs to no single handler."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import get_args

import pytest

import pykraft
from pykraft.core import events, messages
from pykraft.core.effects import AppendBatches, ClosePeer, CloseRequester, Effect, NotifyRole, Send, WriteElectionState
from pykraft.core.events import Event
from pykraft.core.log_view import LogView
from pykraft.core.quarantine import Quarantine
from pykraft.core.raft import Raft, initial_state
from pykraft.core.replica import LocalReplica
from pykraft.core.state import Candidate, Follower, Leader, Prospective, Resigned, State, Unattached
from pykraft.core.voter_history import VoterHistory
from pykraft.errors import ErrorCode, UsageError
from pykraft.types import EPOCH_MAX, Election, Epoch, Io, NodeId, Offset, ReplicaKey, VersionRange, Voter, VoterSet
from tests.core.replicas import (
    CONFIG,
    END,
    LISTENER,
    NOW,
    STATES,
    directory,
    follower,
    key,
    kinds,
    later,
    listeners,
    log_to_10,
    only,
    prospective,
    sent,
    tally,
    unattached,
    voter_set,
)
from tests.core.said import (
    add_voter,
    batch,
    begin,
    begun,
    damage,
    end,
    ended,
    fetch,
    fetch_snapshot,
    fetched,
    place,
    sliced,
    update_voter,
    vote,
    voted,
)


def raft(
    state: State | None = None,
    *,
    election: Election | None = None,
    voters: VoterSet | None = None,
    log: LogView | None = None,
    local_id: int | None = 1,
) -> Raft:
    made = Raft(
        config=CONFIG,
        local=LocalReplica(
            id=None if local_id is None else NodeId(local_id),
            directory_id=directory(1),
            listeners=listeners(1),
            default_listener=LISTENER,
        ),
        voter_history=VoterHistory(voters or voter_set(1, 2, 3)),
        election=election,
        log=log or log_to_10(),
        rng=Random(1),
        now=NOW,
    )
    if state is not None:
        made._replica.state = state
    return made


def asked(message: messages.Request) -> Event:
    return events.RequestReceived(request_id=7, listener=LISTENER, message=message)


def answered(message: messages.Response) -> Event:
    return events.ResponseReceived(peer_id=2, correlation_id=0, message=message)


REQUESTS = [
    *(make(epoch=epoch) for make in (vote, begin, end, fetch, fetch_snapshot, update_voter) for epoch in (-1, 4, 5, 6)),
    *(make(epoch=EPOCH_MAX + 1) for make in (vote, begin, end)),
    vote(epoch=5, pre_vote=True),
    vote(candidate=1),
    vote(candidate=-1),
    begin(leader_id=1),
    begin(epoch=5, leader_id=3),
    end(epoch=5, leader_id=3),
    fetch(at=(99, 5)),
    fetch(at=(-1, 0)),
    add_voter(),
    messages.RemoveVoterRequest(voter=key(9)),
    messages.DescribeQuorumRequest(),
    *(
        messages.UpdateFeaturesRequest(kraft_version=level, validate_only=validate_only)
        for level in (-1, 0, 1, 2)
        for validate_only in (False, True)
    ),
    *(
        messages.TransferLeadershipRequest(target_id=NodeId(target_id), timeout_ms=timeout_ms)
        for target_id in (-1, 1, 2, 9)
        for timeout_ms in (-1, 0, 2**31 - 1)
    ),
]
RESPONSES = [
    *(make(epoch=epoch, leader_id=None) for make in (voted, begun, ended, fetched) for epoch in (-1, 4, 5, 6)),
    *(
        make(epoch=epoch, leader_id=node_id)
        for make in (voted, fetched)
        for epoch in (5, 6)
        for node_id in (1, 2, 3, 9)
    ),
    *(voted(error=error) for error in (*ErrorCode, 199) if error),
    voted(epoch=EPOCH_MAX + 1),
    fetched(batch(10, 11, 5), batch(12, 13, 9)),
    fetched(batch(3, 11, 5)),
    fetched(diverging=(6, 1)),
    fetched(diverging=(1, 1)),
    fetched(diverging=(-1, 1)),
    fetched(snapshot=(-1, 3)),
    fetched(snapshot=(30, 5)),
    *(sliced(epoch=epoch) for epoch in (None, 4, 5, 6)),
    messages.ChangeVoterResponse(error=0),
    messages.ChangeVoterResponse(error=ErrorCode.REQUEST_TIMED_OUT),
    *(
        messages.UpdateVoterResponse(error=error, epoch=Epoch(epoch), leader_id=NodeId(2))
        for error in (0, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.VOTER_NOT_FOUND)
        for epoch in (4, 5, 6)
    ),
    messages.ApiVersionsResponse(error=0, kraft_version=VersionRange(0, 1)),
    messages.DescribeQuorumResponse(error=0),
    messages.TopLevelError(error=ErrorCode.UNSUPPORTED_VERSION),
    messages.TopLevelError(error=199),
]
EVENTS: Mapping[str, list[Event]] = {
    "requests": [asked(message) for message in REQUESTS],
    "responses": [answered(message) for message in RESPONSES],
    "failures": [
        *(events.SendFailed(peer_id=2, correlation_id=0, error=error) for error in (8, 13, 35, 199)),
        events.SendFailed(peer_id=2, correlation_id=0, error=8, is_refused=True),
        *(events.ConnectionLost(peer_id=peer_id) for peer_id in (2, 9)),
    ],
    "storage": [
        *(events.Persisted(io=Io(io)) for io in (0, 1, 99)),
        *(events.CorruptionFound(damage=damage(offset)) for offset in (0, 4, 9, 10)),
        *(events.SnapshotFrozen(snapshot_id=place(*at)) for at in ((3, 1), (3, 2), (30, 3), (30, 5))),
        events.DownloadAdvanced(snapshot_id=place(30, 5), leader_epoch=Epoch(5), position=0),
        events.DownloadFailed(snapshot_id=place(30, 5), reason="damaged"),
        events.SnapshotsExpired(oldest_kept=place(3, 1)),
    ],
    "abandoned": [events.RequestAbandoned(request_id=request_id) for request_id in (1, 99)],
    "time": [
        events.TimerDue(),
        *(
            events.AnswersProgressed(
                arriving=(
                    events.AnswerArriving(peer_id=2, correlation_id=0, received_bytes=received, size_bytes=10**6),
                ),
                leaving=(events.AnswerLeaving(request_id=7, sent_bytes=received, size_bytes=10**6),),
            )
            for received in (0, 10**6)
        ),
    ],
    "application": [
        *(
            events.Proposed(handle=1, epoch=Epoch(epoch), count=count, size_bytes=9)
            for epoch in (4, 5, 6)
            for count in (0, 1)
        ),
        events.AppendsScheduled(),
        *(events.ResignRequested(epoch=Epoch(epoch)) for epoch in (4, 5, 6)),
        *(
            events.UpgradeRequested(handle=1, epoch=Epoch(epoch), version=version, validate_only=validate_only)
            for epoch in (4, 5, 6)
            for version in (-1, 0, 1, 2)
            for validate_only in (False, True)
        ),
        *(
            events.TransferRequested(handle=1, epoch=Epoch(epoch), target_id=NodeId(target_id), timeout_ms=9)
            for epoch in (4, 5, 6)
            for target_id in (1, 2, 9)
        ),
        *(events.ReadRequested(handle=handle) for handle in (1, 2)),
        *(
            events.CommitHeard(epoch=Epoch(epoch), end_offset=Offset(end_offset))
            for epoch in (4, 5, 6)
            for end_offset in (-1, 5, 99)
        ),
        events.ShutdownRequested(timeout_ms=9),
    ],
}


def test_the_list_of_events_is_complete() -> None:
    assert {type(event) for group in EVENTS.values() for event in group} == set(get_args(events.Event))
    assert {*map(type, REQUESTS), messages.ApiVersionsRequest} == set(get_args(messages.Request))


@pytest.mark.parametrize("group", EVENTS)
@pytest.mark.parametrize("name", STATES)
def test_no_event_in_any_state_is_too_much(name: str, group: str) -> None:
    """Whoever cannot be right has its connection closed, and nothing is changed for it."""
    for event in EVENTS[group]:
        made = raft(STATES[name]())
        before, epoch = made.state, made.status.epoch
        made._replica.connections.sent(2, NOW.mono_ms)
        found = made.step(event, NOW)
        assert made.status.epoch >= epoch, event
        closed = [one for one in found if isinstance(one, CloseRequester | ClosePeer)]
        assert not closed or made.state is before, event
        answers = kinds(found).count("Reply") + kinds(found).count("ReplyFetch") + len(made._replica.parked.take_all())
        assert answers == (isinstance(event, events.RequestReceived) and not closed), event


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            asked(begin(epoch=5, leader_id=3)),
            CloseRequester(request_id=7, reason="epoch 5 has leader 2, it names 3 as well"),
        ),
        (
            answered(fetched(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader_id=3)),
            ClosePeer(peer_id=2, reason="epoch 5 has leader 2, it names 3 as well"),
        ),
    ],
)
def test_a_second_leader_loses_its_connection(event: Event, expected: Effect) -> None:
    made = raft(follower(has_fetched=True))
    before = made.state
    made._replica.connections.sent(2, NOW.mono_ms)
    assert expected in made.step(event, NOW)
    assert made.state is before
    assert isinstance(event, events.RequestReceived) or made._replica.connections.is_backing_off(2)


@pytest.mark.conformance(51)
@pytest.mark.parametrize("name", ["prospective", "candidate", "leader", "follower", "resigned"])
@pytest.mark.parametrize("error", [ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.INVALID_REQUEST])
def test_who_refuses_us_loses_its_connection_and_the_node_goes_on(name: str, error: ErrorCode) -> None:
    ask: Mapping[str, messages.Response] = {
        "prospective": voted(error=error),
        "candidate": voted(error=error),
        "leader": begun(error=error),
        "follower": fetched(error=error),
        "resigned": ended(error=error),
    }
    for message in (ask[name], messages.TopLevelError(error=error)):
        made = raft(STATES[name]())
        before = made.state
        made._replica.connections.sent(2, NOW.mono_ms)
        found = made.step(events.ResponseReceived(peer_id=2, correlation_id=0, message=message), NOW)
        assert only(found, ClosePeer).peer_id == 2
        assert made.state is before
        assert made._replica.connections.is_backing_off(2)


@pytest.mark.conformance(43, 97)
@pytest.mark.parametrize(
    "event",
    [
        events.ResponseReceived(peer_id=2, correlation_id=1, message=voted()),
        events.ResponseReceived(peer_id=3, correlation_id=0, message=voted()),
        events.SendFailed(peer_id=2, correlation_id=1, error=ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_late_answers_and_failures_are_ignored(event: Event) -> None:
    made = raft(prospective())
    before = made.state
    made._replica.connections.sent(2, NOW.mono_ms)
    made._replica.connections.sent(3, NOW.mono_ms)
    assert made.step(event, NOW) == []
    assert made.state is before


@pytest.mark.conformance(96, 97)
def test_a_failure_is_followed_by_a_pause() -> None:
    made = raft(prospective())
    made._replica.connections.sent(2, NOW.mono_ms)
    made.step(events.SendFailed(peer_id=2, correlation_id=0, error=8), NOW)
    assert made._replica.connections.is_backing_off(2)


def test_the_start_writes_the_election_even_unchanged_before_anything_is_said() -> None:
    made = raft(election=Election(epoch=Epoch(5)))
    found = made.start(NOW)
    assert kinds(found)[0] == "WriteElectionState"
    assert only(found, WriteElectionState).election == Election(epoch=Epoch(5))
    assert {one.after for one in found if isinstance(one, Send)} == {only(found, WriteElectionState).io}
    assert isinstance(made.state, Unattached)


@pytest.mark.conformance(74)
def test_a_new_replica_starts_at_epoch_0() -> None:
    made = raft(log=LogView(start_offset=Offset(0), end_offset=Offset(0)))
    found = made.start(NOW)
    assert only(found, WriteElectionState).election == Election()
    assert only(found, NotifyRole) == NotifyRole(role="unattached", epoch=Epoch(0))


@pytest.mark.conformance(2, 3, "H57")
@pytest.mark.parametrize(
    ("election", "epoch"),
    [
        (None, 4),
        (Election(epoch=Epoch(5), leader_id=NodeId(1)), 6),
        (Election(epoch=Epoch(5), leader_id=NodeId(9)), 6),
        (Election(epoch=Epoch(5), voted=key(1)), 5),
    ],
)
def test_an_only_voter_leads_when_it_has_started(election: Election | None, epoch: int) -> None:
    made = raft(election=election, voters=voter_set(1))
    found = made.start(NOW)
    assert isinstance(made.state, Leader)
    assert made.status.epoch == epoch
    assert only(found, WriteElectionState).election == Election(epoch=Epoch(epoch), leader_id=NodeId(1))
    assert only(found, AppendBatches).batches[0].base_offset == END.offset


def test_an_only_voter_of_the_last_epoch_waits_for_ever() -> None:
    made = raft(election=Election(epoch=EPOCH_MAX, leader_id=NodeId(1)), voters=voter_set(1))
    made.start(NOW)
    assert isinstance(made.state, Resigned)
    made.step(events.TimerDue(), later(9_999))
    assert made.status.epoch == EPOCH_MAX


@pytest.mark.conformance(17)
def test_a_candidate_that_restarts_asks_at_once() -> None:
    made = raft(election=Election(epoch=Epoch(5), voted=key(1)))
    assert sent(made.start(NOW)) == [(2, "VoteRequest"), (3, "VoteRequest")]
    assert isinstance(made.state, Candidate)


@pytest.mark.conformance(84)
def test_a_disk_of_another_node_is_refused() -> None:
    with pytest.raises(UsageError):
        raft(election=Election(epoch=Epoch(5), voted=key(1)), local_id=None)


def test_after_the_shutdown_nothing_happens_any_more() -> None:
    made = raft(follower())
    assert "CompleteShutdown" in kinds(made.step(events.ShutdownRequested(timeout_ms=9), NOW))
    assert made.step(asked(vote()), NOW) == []
    assert made.next_deadline_ms() is None


def test_what_the_host_may_look_at() -> None:
    made = raft(unattached(leader_id=2))
    assert (made.log.end, made.voter_history.voters) == (END, voter_set(1, 2, 3))
    assert made.connections.is_ready(2)
    assert not isinstance(made.state, Prospective)


def test_a_leader_that_resigned_is_nobody_to_ask() -> None:
    made = raft(election=Election(epoch=Epoch(5), leader_id=NodeId(1)))
    made.start(NOW)
    assert (made.status.role, made.status.leader_id, made.status.serving_leader) == ("resigned", 1, None)
    assert made.next_deadline_ms() is not None


@pytest.mark.interpreted
@pytest.mark.conformance("H60")
def test_the_core_is_a_library_by_itself() -> None:
    code = """
import sys
import pykraft.core.raft
print(*sorted({".".join(name.split(".")[:2]) for name in sys.modules if name.startswith("pykraft.")}))
print(*sorted({name.partition(".")[0] for name in sys.modules} - {*sys.stdlib_module_names, "pykraft", "__main__"}))
"""
    environment = {"PYTHONPATH": str(Path(pykraft.__file__).parent.parent)}
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    ours, others = done.stdout.split("\n")[:2]
    assert set(ours.split()) <= {
        f"pykraft.{name}"
        # The last three are how listeners are protected, as values of the configuration.
        for name in ("core", "types", "errors", "config", "security", "text", "value")
    }
    assert others == ""


def start(
    election: Election, *, local_id: int | None = 1, voters: VoterSet | None = None, log: LogView | None = None
) -> State:
    return initial_state(
        config=CONFIG,
        local=LocalReplica(
            id=None if local_id is None else NodeId(local_id),
            directory_id=directory(1),
            listeners=listeners(1),
            default_listener=LISTENER,
        ),
        voters=voters or voter_set(1, 2, 3),
        election=election,
        log=log or log_to_10(),
        rng=Random(1),
        now=NOW,
    )


def election(epoch: int = 5, leader_id: int | None = None, voted: ReplicaKey | None = None) -> Election:
    return Election(epoch=Epoch(epoch), leader_id=None if leader_id is None else NodeId(leader_id), voted=voted)


@pytest.mark.conformance(84)
def test_a_vote_without_an_id_is_a_mistake_of_the_configuration() -> None:
    with pytest.raises(UsageError, match=r"node\.id"):
        start(election(voted=key(2)), local_id=None)


@pytest.mark.conformance(74)
def test_the_log_knows_of_a_higher_epoch() -> None:
    state = start(election(epoch=2, leader_id=1, voted=key(1)))
    assert isinstance(state, Unattached)
    assert (state.epoch, state.leader_id, state.voted) == (3, None, None)


@pytest.mark.conformance(7, 74, 91, "H37")
@pytest.mark.parametrize("epoch", [3, 5])
def test_a_leader_of_the_last_epoch_has_resigned(epoch: int) -> None:
    state = start(election(epoch=epoch, leader_id=1))
    assert isinstance(state, Resigned)
    assert (state.epoch, state.leader_id, sorted(state.unacknowledged), state.successors) == (epoch, 1, [2, 3], ())


@pytest.mark.conformance(74)
def test_leadership_is_remembered_by_id_alone() -> None:
    assert isinstance(start(election(leader_id=1), voters=voter_set(2, 3)), Resigned)


@pytest.mark.conformance(5, 17, 74)
@pytest.mark.parametrize("directory_id", [directory(1), None])
def test_a_candidate_asks_again_in_its_epoch(directory_id: bytes | None) -> None:
    state = start(election(voted=ReplicaKey(NodeId(1), directory(1) if directory_id else None)))
    assert isinstance(state, Candidate)
    assert (state.epoch, state.voted, state.tally) == (5, key(1), tally())


@pytest.mark.parametrize(("leader_id", "state"), [(None, Unattached), (2, Follower)])
def test_with_a_damaged_log_nobody_is_asked_to_confirm_an_own_vote(leader_id: int | None, state: type[State]) -> None:
    log = log_to_10()
    log.quarantine = Quarantine(epoch=Epoch(5), until_offset=None, damages=(), is_cut=True)
    begun = start(election(voted=key(1), leader_id=leader_id), log=log)
    assert isinstance(begun, Unattached | Follower)
    assert type(begun) is state
    assert begun.voted == key(1)


@pytest.mark.conformance(74)
@pytest.mark.parametrize(("leader_id", "state"), [(2, Follower), (9, Unattached)])
def test_who_knows_the_leader_of_its_epoch_does_not_campaign_in_it_again(leader_id: int, state: type[State]) -> None:
    begun = start(election(leader_id=leader_id, voted=key(1)))
    assert isinstance(begun, Unattached | Follower)
    assert type(begun) is state
    assert (begun.epoch, begun.leader_id, begun.voted) == (5, leader_id, key(1))


@pytest.mark.conformance(74)
def test_a_vote_for_the_same_id_with_another_directory_is_a_vote_for_another() -> None:
    other = ReplicaKey(NodeId(1), directory(9))
    state = start(election(voted=other))
    assert isinstance(state, Unattached)
    assert state.voted == other


@pytest.mark.conformance(74)
def test_a_candidate_that_is_no_voter_any_more_does_not_campaign() -> None:
    state = start(election(voted=key(1)), voters=voter_set(2, 3))
    assert isinstance(state, Unattached)
    assert state.voted == key(1)


@pytest.mark.conformance(74)
def test_a_follower_goes_on_following() -> None:
    state = start(election(leader_id=2, voted=key(3)))
    assert isinstance(state, Follower)
    assert (state.epoch, state.leader_id, state.leader_listeners, state.voted) == (5, 2, listeners(2), key(3))
    assert (state.has_fetched, state.high_watermark) == (False, None)
    assert state.fetch_deadline_ms == NOW.mono_ms + CONFIG.fetch_timeout_ms


@pytest.mark.conformance(75)
def test_a_leader_that_cannot_be_reached_is_remembered() -> None:
    state = start(election(leader_id=9, voted=key(3)))
    assert isinstance(state, Unattached)
    assert (state.epoch, state.leader_id, state.voted) == (5, 9, key(3))


@pytest.mark.conformance(74)
@pytest.mark.parametrize("voted", [None, key(3)])
def test_otherwise_unattached(voted: ReplicaKey | None) -> None:
    state = start(election(voted=voted))
    assert isinstance(state, Unattached)
    assert (state.epoch, state.leader_id, state.voted) == (5, None, voted)


@pytest.mark.conformance(74)
def test_a_new_replica_begins_at_epoch_0_and_waits_an_election_timeout() -> None:
    state = start(Election(), log=LogView(start_offset=Offset(0), end_offset=Offset(0)))
    assert isinstance(state, Unattached)
    assert state.epoch == 0
    assert 1_000 <= state.election_deadline_ms - NOW.mono_ms < 2_000


@pytest.mark.conformance(84)
def test_an_observer_without_id_does_not_take_an_unknown_leader_for_itself() -> None:
    assert isinstance(start(election(), local_id=None), Unattached)


ANONYMOUS = VoterSet.of(Voter(key=ReplicaKey(NodeId(node_id)), listeners=listeners(node_id)) for node_id in (1, 2, 3))
"""Configured voters, at level 0: nobody's directory id is known."""
REPLACED = VoterSet.of(
    [Voter(key=ReplicaKey(NodeId(1), directory(9)), listeners=listeners(1)), *voter_set(2, 3).voters]
)
"""At level 1: the voter with this replica's id has another disk."""


@pytest.mark.conformance(74)
@pytest.mark.parametrize(
    ("remembered", "at_level_0", "at_level_1", "on_a_new_disk"),
    [
        pytest.param(Election(), Unattached, Unattached, Unattached, id="nothing"),
        pytest.param(election(), Unattached, Unattached, Unattached, id="an epoch"),
        pytest.param(election(leader_id=2), Follower, Follower, Follower, id="a leader"),
        pytest.param(election(voted=key(2)), Unattached, Unattached, Unattached, id="a vote"),
        pytest.param(election(voted=ReplicaKey(NodeId(2))), Unattached, Unattached, Unattached, id="a vote for an id"),
        pytest.param(election(leader_id=2, voted=key(2)), Follower, Follower, Follower, id="a vote for its leader"),
        pytest.param(election(voted=key(1)), Candidate, Candidate, Unattached, id="an own vote"),
        pytest.param(election(voted=ReplicaKey(NodeId(1))), Candidate, Candidate, Unattached, id="an own vote by id"),
        pytest.param(election(leader_id=1, voted=key(1)), Resigned, Resigned, Resigned, id="leadership"),
    ],
)
def test_static_voters_are_known_by_id_and_those_of_the_log_by_their_disk_too(
    remembered: Election, at_level_0: type[State], at_level_1: type[State], on_a_new_disk: type[State]
) -> None:
    empty = LogView(start_offset=Offset(0), end_offset=Offset(0))
    found = [start(remembered, voters=voters, log=empty) for voters in (ANONYMOUS, voter_set(1, 2, 3), REPLACED)]
    assert [type(state) for state in found] == [at_level_0, at_level_1, on_a_new_disk]
    assert [state.epoch for state in found] == [remembered.epoch] * 3

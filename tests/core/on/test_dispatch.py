"""The tables of handlers are complete; DescribeQuorum shows all replicas; answers in transit extend deadlines.

Source: KIP-595 §DescribeQuorum and §Leader progress timeout; ADR 036.
"""

from dataclasses import replace
from typing import get_args

import pytest

from pykraft.core import events, messages, raft
from pykraft.core.effects import Reply, ReplyFetch, ReplySnapshot
from pykraft.core.enter_state import to_leader
from pykraft.core.events import AnswerArriving, AnswerLeaving, AnswersProgressed, SendFailed, ShutdownRequested
from pykraft.core.messages import DescribedReplica
from pykraft.core.on.propose import on_shutdown_requested
from pykraft.core.replica import Replica
from pykraft.core.state import Candidate, Follower, Leader, Prospective
from pykraft.core.voter_history import BOOTSTRAP_OFFSET, VoterHistory
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.types import KRaftVersion, KRaftVoters, NodeId, Offset, ReplicaKey, VoterSet
from tests.core.replicas import (
    CONFIG,
    LATER_MS,
    NOW,
    answer,
    ask,
    candidate,
    done,
    follower,
    key,
    later,
    leader,
    only,
    prospective,
    replica,
    tally,
    voter_set,
)
from tests.core.said import end, fetch, fetch_snapshot, fetched, place


@pytest.mark.conformance("H56")
def test_every_request_has_a_handler() -> None:
    answered_by_the_host = {messages.ApiVersionsRequest}
    assert set(raft.REQUEST_HANDLERS) == set(get_args(messages.Request)) - answered_by_the_host


def test_an_answer_to_what_is_never_asked_is_the_peers_fault() -> None:
    never_asked = set(get_args(messages.Response)) - set(raft.RESPONSE_HANDLERS) - {messages.TopLevelError}
    assert messages.DescribeQuorumResponse in never_asked
    with pytest.raises(ProtocolError, match="DescribeQuorumResponse"):
        answer(replica(), messages.DescribeQuorumResponse(error=0))


@pytest.mark.parametrize(
    ("error", "falls_back"),
    [(ErrorCode.UNSUPPORTED_VERSION, True), (ErrorCode.BROKER_NOT_AVAILABLE, False), (199, False)],
)
def test_only_missing_support_for_pre_votes_says_something(error: int, falls_back: bool) -> None:
    told = replica(prospective())
    answer(told, messages.TopLevelError(error=error))
    assert isinstance(told.state, Candidate if falls_back else Prospective)
    assert told.connections.is_backing_off(2) != falls_back
    failed = replica(prospective())
    raft.on_send_failed(failed, SendFailed(peer_id=2, correlation_id=0, error=error), NOW)
    assert isinstance(failed.state, Candidate if falls_back else Prospective)


@pytest.mark.parametrize("is_refused", [False, True])
def test_peers_that_refuse_connections_are_noted_until_they_answer_or_a_shutdown_begins(is_refused: bool) -> None:
    made = replica(prospective())
    failure = SendFailed(peer_id=2, correlation_id=0, error=ErrorCode.BROKER_NOT_AVAILABLE, is_refused=is_refused)
    raft.on_send_failed(made, failure, NOW)
    assert made.refused_by == ({2} if is_refused else set())
    answer(made, messages.TopLevelError(error=ErrorCode.BROKER_NOT_AVAILABLE))
    assert made.refused_by == set()
    made.refused_by.add(3)
    on_shutdown_requested(made, ShutdownRequested(timeout_ms=9), NOW)
    assert made.refused_by == set()


@pytest.mark.conformance(46)
def test_the_leader_describes_itself_its_voters_and_its_observers() -> None:
    state = leader(high_watermark=9)
    state.progress.of(key(3)).fetched(Offset(9), Offset(10), NOW)
    state.progress.of(key(8)).fetched(Offset(10), Offset(10), NOW)
    made = replica(state)
    now = later(50)
    message = only(ask(made, messages.DescribeQuorumRequest(asked_as="t"), now), Reply).message

    def row(node_id: int, end: int, fetched_ms: int, caught_up_ms: int) -> DescribedReplica:
        return DescribedReplica(
            key=key(node_id), log_end_offset=end, last_fetch_timestamp=fetched_ms, last_caught_up_timestamp=caught_up_ms
        )

    assert message == messages.DescribeQuorumResponse(
        error=0,
        asked_as="t",
        leader_id=made.local.id,
        epoch=made.epoch,
        high_watermark=Offset(9),
        voters=(row(1, 10, now.wall_ms, now.wall_ms), row(2, -1, -1, -1), row(3, 9, NOW.wall_ms, -1)),
        observers=(row(8, 10, NOW.wall_ms, NOW.wall_ms),),
        nodes=made.voters.voters,
    )


@pytest.mark.conformance(46)
def test_at_level_0_no_voter_has_a_directory_id_not_even_the_leader() -> None:
    static = VoterSet.of(replace(voter, key=ReplicaKey(voter.key.id)) for voter in voter_set(1, 2).voters)
    made = replica(candidate(count=tally(granted=(1, 2), voters=(1, 2))), voters=static)
    to_leader(made, NOW)
    done(made)
    message = only(ask(made, messages.DescribeQuorumRequest(asked_as="t")), Reply).message
    assert isinstance(message, messages.DescribeQuorumResponse)
    assert [voter.key for voter in message.voters] == [ReplicaKey(NodeId(1)), ReplicaKey(NodeId(2))]


@pytest.mark.conformance(46)
def test_only_the_leader_knows() -> None:
    message = only(ask(replica(follower()), messages.DescribeQuorumRequest(asked_as="t")), Reply).message
    assert message == messages.DescribeQuorumResponse(error=ErrorCode.NOT_LEADER_OR_FOLLOWER, asked_as="t")


@pytest.mark.conformance(46)
def test_the_voters_of_a_checkpoint_count_and_not_the_configured_ones() -> None:
    formatted = voter_set(1, 4, 5)
    made = replica(candidate(count=tally(granted=(1, 4), voters=(1, 4, 5))), voters=voter_set(1, 2, 3))
    made.voter_history = VoterHistory(
        voter_set(1, 2, 3), [(BOOTSTRAP_OFFSET, KRaftVersion(1)), (BOOTSTRAP_OFFSET, KRaftVoters(formatted))]
    )
    to_leader(made, NOW)
    done(made)
    message = only(ask(made, messages.DescribeQuorumRequest(asked_as="t")), Reply).message
    assert isinstance(message, messages.DescribeQuorumResponse)
    assert [voter.key for voter in message.voters] == [key(1), key(4), key(5)]
    assert (message.observers, message.nodes) == ((), VoterSet.of([*formatted.voters, made.local.voter]).voters)


def test_every_local_event_has_a_handler() -> None:
    others = {
        events.RequestReceived,
        events.RequestAbandoned,
        events.ResponseReceived,
        events.SendFailed,
        events.Persisted,
        events.TimerDue,
    }
    assert set(raft.HANDLERS) == set(get_args(events.Event)) - others


def test_a_local_event_reaches_its_handler() -> None:
    made = replica()
    raft.on_local_event(made, events.ShutdownRequested(timeout_ms=9), NOW)
    assert made.is_shutting_down
    assert done(made)


SIZE_BYTES = 8 * 1024 * 1024
ENOUGH_BYTES = SIZE_BYTES // 10


def arriving(made: Replica, received_bytes: int, *, peer_id: int = 2, after_ms: int = 1_000) -> None:
    """So much has come of the answer to the first request, which is sent if need be."""
    if made.connections.is_ready(peer_id):
        made.connections.sent(peer_id, NOW.mono_ms)
    there = AnswerArriving(peer_id=peer_id, correlation_id=0, received_bytes=received_bytes, size_bytes=SIZE_BYTES)
    raft.on_answers_progressed(made, AnswersProgressed(arriving=(there,)), later(after_ms))


def leaving(made: Replica, sent_bytes: int, *, request_id: int = 7, after_ms: int = 1_000) -> Leader:
    gone = AnswerLeaving(request_id=request_id, sent_bytes=sent_bytes, size_bytes=SIZE_BYTES)
    raft.on_answers_progressed(made, AnswersProgressed(leaving=(gone,)), later(after_ms))
    assert isinstance(made.state, Leader)
    return made.state


def test_an_answer_that_arrives_holds_off_its_timeout_and_the_campaign() -> None:
    made = replica(follower())
    arriving(made, ENOUGH_BYTES)
    assert isinstance(made.state, Follower)
    assert made.state.deadline_ms == later(1_000).mono_ms + CONFIG.fetch_timeout_ms
    assert not made.state.has_fetched, "whether it is a good answer is not known yet"
    assert made.connections.next_deadline_ms() == later(1_000).mono_ms + CONFIG.request_timeout_ms


def test_one_that_trickles_does_not() -> None:
    made = replica(follower())
    before = made.state
    arriving(made, 5)
    assert made.state is before
    assert made.connections.next_deadline_ms() == NOW.mono_ms + CONFIG.request_timeout_ms


def test_neither_does_one_of_another_node_nor_what_a_leader_said_before_it_left() -> None:
    made = replica(follower())
    before = made.state
    arriving(made, ENOUGH_BYTES, peer_id=3)
    assert made.state is before
    assert made.connections.next_deadline_ms() == later(1_000).mono_ms + CONFIG.request_timeout_ms
    left = replace(follower(), leader_has_left=True)
    made = replica(left)
    arriving(made, ENOUGH_BYTES)
    assert made.state is left
    made = replica(prospective())
    before = made.state
    arriving(made, ENOUGH_BYTES)
    assert made.state is before


@pytest.mark.parametrize("error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH])
def test_a_whole_answer_counts_for_what_it_says_and_not_for_its_parts(error: ErrorCode) -> None:
    """A node that leads no more answers all Fetches with errors; if they come in parts, the follower campaigns too."""
    late = later(1_500)
    refused = replica(follower())
    arriving(refused, ENOUGH_BYTES, after_ms=1_000)
    answer(refused, fetched(error=error, leader_id=None), now=late)
    assert isinstance(refused.state, Follower)
    assert refused.state.deadline_ms == LATER_MS
    fed = replica(follower())
    arriving(fed, ENOUGH_BYTES, after_ms=1_000)
    answer(fed, fetched(), now=late)
    assert isinstance(fed.state, Follower)
    assert fed.state.deadline_ms == late.mono_ms + CONFIG.fetch_timeout_ms
    other = replica(follower())
    arriving(other, ENOUGH_BYTES, after_ms=1_000)
    answer(other, fetched(error=error, leader_id=None), peer_id=3, now=late)
    assert isinstance(other.state, Follower)
    assert other.state.deadline_ms == later(1_000).mono_ms + CONFIG.fetch_timeout_ms, "the leader's is on its way"


@pytest.mark.parametrize("never_leads", [False, True])
def test_nothing_that_arrives_holds_a_follower_whose_leader_has_left(never_leads: bool) -> None:
    made = replica(follower(), config=replace(CONFIG, never_leads=never_leads))
    arriving(made, ENOUGH_BYTES, after_ms=1_000)
    ask(made, end(), later(1_000))
    assert isinstance(made.state, Follower)
    assert made.state.leader_has_left
    assert made.state.deadline_ms == made.state.fetch_deadline_ms


def test_what_answers_no_request_is_ignored() -> None:
    made = replica(follower())
    before = made.state
    there = AnswerArriving(peer_id=2, correlation_id=0, received_bytes=ENOUGH_BYTES, size_bytes=SIZE_BYTES)
    raft.on_answers_progressed(made, AnswersProgressed(arriving=(there,)), NOW)
    assert made.state is before


def test_an_answer_that_leaves_counts_for_check_quorum_as_long_as_it_moves() -> None:
    made = replica(leader())
    made.now_ms = NOW.mono_ms
    served = only(ask(made, fetch(replica=key(2), at=(6, 1))), ReplyFetch)
    assert served.is_watched
    before_ms = leaving(made, 0).check_quorum_deadline_ms
    assert leaving(made, 5).check_quorum_deadline_ms == before_ms
    assert leaving(made, ENOUGH_BYTES, request_id=8).check_quorum_deadline_ms == before_ms
    later_ms = leaving(made, ENOUGH_BYTES).check_quorum_deadline_ms
    assert later_ms == later(1_000).mono_ms + CONFIG.fetch_timeout_ms * 3 // 2
    assert leaving(made, ENOUGH_BYTES, after_ms=1_500).check_quorum_deadline_ms == later_ms


def test_a_large_answer_that_has_left_may_be_in_buffers_on_its_way_for_a_while() -> None:
    """8 MiB at 2 MB/s: all of it was in the buffers of kernels and proxies within moments, and the leader resigned."""
    made = replica(leader())
    made.now_ms = NOW.mono_ms
    only(ask(made, fetch(replica=key(2), at=(6, 1))), ReplyFetch)
    deadlines = [
        leaving(made, SIZE_BYTES, after_ms=after_ms).check_quorum_deadline_ms
        for after_ms in range(1_000, 41_000, 1_000)
    ]
    extended_s = [at for at, deadline_ms in enumerate(deadlines, 1) if deadline_ms == later(at * 1_000 + 3_000).mono_ms]
    assert extended_s == [*range(1, 17)], "a voter that takes nothing more is silent in the end"


def test_only_answers_to_voters_are_watched_and_only_those_with_bytes() -> None:
    made = replica(leader())
    assert not only(ask(made, fetch(replica=key(9), at=(6, 1))), ReplyFetch).is_watched
    assert not only(ask(made, fetch(replica=None, at=(6, 1))), ReplyFetch).is_watched
    assert not only(ask(made, fetch(replica=key(2), at=(10, 3), wait_ms=0)), ReplyFetch).is_watched


def test_a_slice_of_a_snapshot_is_watched_too() -> None:
    made = replica(leader())
    made.log.add_snapshot(place(3, 1))
    for replica_id, is_watched in ((2, True), (9, False), (None, False)):
        assert only(ask(made, fetch_snapshot(replica=replica_id)), ReplySnapshot).is_watched is is_watched
    made.now_ms = NOW.mono_ms + CONFIG.fetch_timeout_ms
    late = later(CONFIG.fetch_timeout_ms)
    assert only(ask(made, fetch_snapshot(), late), ReplySnapshot).size_bytes_max == 500


def test_a_link_that_carries_little_is_given_little_at_a_time_and_more_again_later() -> None:
    made = replica(leader())
    made.now_ms = NOW.mono_ms
    asked_bytes = 1 << 20

    def served(after_ms: int) -> int:
        made.now_ms = later(after_ms).mono_ms
        asked = replace(fetch(at=(6, 1)), size_bytes_max=asked_bytes)
        return only(ask(made, asked, later(after_ms)), ReplyFetch).size_bytes_max

    half_ms = CONFIG.fetch_timeout_ms // 2
    assert served(0) == asked_bytes
    assert served(half_ms) == asked_bytes, "half a timeout is not too long"
    assert served(2 * half_ms + 1) == asked_bytes // 2
    assert served(4 * half_ms) == asked_bytes // 4
    assert served(4 * half_ms + 1_000) == asked_bytes // 4
    assert served(4 * half_ms + 1_001) == asked_bytes // 2
    assert served(4 * half_ms + 1_002) == asked_bytes
    for number in range(20):
        assert served((10 + 2 * number) * half_ms) >= asked_bytes // 64

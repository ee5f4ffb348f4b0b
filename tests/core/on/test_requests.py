"""Fencing and addressing, which all handlers share.

An unproven replica that knows no other voter asks none.

Requests about voters, levels and leadership with any values, in any order: each gets an answer.

One that ended a leader could be sent to the next one, too: an operator's slip would be the end of the quorum.

Source: Kafka ``KafkaRaftClient.validateVoterOnlyRequest`` and ``validateLeaderOnlyRequest``; ours (ADR 022); ours: no
request from outside ends a node; KIP-853 §AddRaftVoter, §RemoveRaftVoter and Raft dissertation §3.10 for what the
requests ask.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final

import pytest

from pykraft.config import INT32_MAX
from pykraft.core import messages
from pykraft.core.effects import Reply, Send, WriteElectionState
from pykraft.core.events import RequestReceived
from pykraft.core.messages import TopLevelError
from pykraft.core.on.dispatch import on_request
from pykraft.core.on.proof import settle_proof
from pykraft.core.on.requests import is_addressed_to, leader_only_error, reply, voter_only_error
from pykraft.core.on.send_requests import PROBE_OFFSET
from pykraft.core.on.timer import poll
from pykraft.core.outbox import Relies
from pykraft.core.proof import Proof, Survey
from pykraft.core.raft import begin
from pykraft.core.replica import Replica
from pykraft.core.state import Leader, State, Unattached
from pykraft.core.transitions import write_election
from pykraft.core.voter_history import VoterHistory
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.types import (
    EPOCH_MAX,
    KRAFT_VERSIONS,
    NO_IO,
    ZERO_UUID,
    Endpoint,
    Epoch,
    KRaftVoters,
    Listeners,
    NodeId,
    Offset,
    ReplicaKey,
    VersionRange,
    VoterSet,
)
from tests.core.on.test_proof import OTHERS, in_epoch_5, receive, surveyed, unproven
from tests.core.on.voters.test_voter_changes import dynamic
from tests.core.replicas import (
    LISTENER,
    NOW,
    answer,
    directory,
    done,
    follower,
    key,
    later,
    leader,
    listeners,
    only,
    replica,
    resigned,
    unattached,
    voter_set,
)
from tests.core.said import batch, fetched


@pytest.mark.parametrize(
    ("sender_id", "epoch", "error"),
    [
        (2, 5, ErrorCode.NONE),
        (2, EPOCH_MAX, ErrorCode.NONE),
        (0, 6, ErrorCode.NONE),
        (2, 4, ErrorCode.FENCED_LEADER_EPOCH),
        (-1, 4, ErrorCode.FENCED_LEADER_EPOCH),
        (-1, 5, ErrorCode.INVALID_REQUEST),
        (2, EPOCH_MAX + 1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_voters_are_fenced(sender_id: int, epoch: int, error: ErrorCode) -> None:
    assert voter_only_error(replica(follower()), NodeId(sender_id), Epoch(epoch)) == error


@pytest.mark.parametrize(
    ("state", "epoch", "leaves", "error"),
    [
        (leader(), 5, False, ErrorCode.NONE),
        (leader(), 4, True, ErrorCode.FENCED_LEADER_EPOCH),
        (leader(), 6, True, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (leader(), 5, True, ErrorCode.BROKER_NOT_AVAILABLE),
        (follower(), 5, True, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (resigned(), 5, False, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_only_the_leader_of_the_epoch_serves(state: State, epoch: int, leaves: bool, error: ErrorCode) -> None:
    made = replica(state)
    made.shutdown_deadline_ms = 0 if leaves else None
    assert leader_only_error(made, Epoch(epoch)) == error


@pytest.mark.parametrize(
    ("voter", "expected"),
    [
        (None, True),
        (key(1), True),
        (ReplicaKey(NodeId(1)), True),
        (ReplicaKey(NodeId(1), directory(2)), False),
        (ReplicaKey(NodeId(2)), False),
        (ReplicaKey(NodeId(2), directory(1)), False),
    ],
)
def test_a_missing_part_of_the_voters_key_matches_anything(voter: ReplicaKey | None, expected: bool) -> None:
    assert is_addressed_to(replica(), voter) is expected


@pytest.mark.parametrize("relies", [Relies.EPOCH, Relies.ELECTION])
def test_an_answer_waits_for_what_it_relies_on(relies: Relies) -> None:
    made = replica()
    write_election(made)
    io = only(done(made), WriteElectionState).io
    write_election(made)
    newest_io = only(done(made), WriteElectionState).io
    reply(made, 3, TopLevelError(error=0), relies)
    answer = only(done(made), Reply)
    assert (answer.request_id, answer.after) == (3, io if relies is Relies.EPOCH else newest_io)
    made.outbox.persist(newest_io)
    reply(made, 3, TopLevelError(error=0))
    assert only(done(made), Reply).after == NO_IO


def test_without_voters_it_cannot_know_whether_it_is_one() -> None:
    made = unproven(unattached(), survey=Survey(has_fresh_id=True))
    made.voter_history = VoterHistory(VoterSet())
    poll(made, NOW)
    assert made.survey == Survey(has_fresh_id=True)


def test_when_a_truncation_has_removed_the_voters_it_asks_nobody_until_it_knows_some() -> None:
    """Seed 3731: the leader's log had none yet, and the next round of the survey ended the node."""
    made = unproven(unattached(), is_empty=True, survey=surveyed(told=frozenset({NodeId(2)}), has_old_voter=True))
    made.voter_history = VoterHistory(VoterSet())
    poll(made, NOW)
    assert made.survey == Survey(has_fresh_id=False, has_old_voter=True)
    assert [
        each for each in done(made) if isinstance(each, Send) and isinstance(each.message, messages.VoteRequest)
    ] == []
    made.voter_history = VoterHistory(voter_set(1, 2, 3))
    poll(made, NOW)
    assert made.survey.others == OTHERS
    assert made.survey.asked == OTHERS


def test_a_quorum_of_one_has_nobody_to_ask() -> None:
    made = unproven(unattached(), voters=voter_set(1))
    settle_proof(made, NOW)
    assert made.survey is None


@pytest.mark.parametrize("offset", [-1, 3])
def test_the_only_voter_in_a_log_waits_until_it_has_what_its_leader_had(offset: int) -> None:
    """Campaign seed 10686: the log that it fetched began when it was the only voter, and it took itself for that."""
    made = in_epoch_5(unproven(voters=VoterSet()))
    made.voter_history.record(Offset(offset), KRaftVoters(voters=voter_set(1)))
    poll(made, NOW)
    (probe,) = [one for one in done(made) if isinstance(one, Send)]
    assert isinstance(probe.message, messages.FetchRequest)
    assert (probe.message.replica, probe.message.fetch_offset) == (None, PROBE_OFFSET)
    receive(made, probe, fetched(epoch=5, leader_id=2, diverging=(12, 5)))
    assert made.survey is not None
    assert (made.survey.others, made.survey.until_offset) == (frozenset(), 12)
    made.voter_history.record(Offset(11), KRaftVoters(voters=voter_set(1, 2)))
    poll(made, NOW)
    assert made.survey.others == frozenset({NodeId(2)})
    assert made.survey.until_offset is None


@pytest.mark.parametrize("has_voters", [True, False])
def test_the_only_voter_in_its_own_log_needs_no_leader(has_voters: bool) -> None:
    """Its quorum-state was removed, and its log was not. What it learns of voters later is not its own."""
    made = unproven(unattached(), voters=VoterSet())
    if not has_voters:
        settle_proof(made, NOW, is_log_own=True)
    made.voter_history.record(Offset(3), KRaftVoters(voters=voter_set(1)))
    settle_proof(made, NOW, is_log_own=has_voters)
    assert (made.survey is None) is has_voters


@pytest.mark.parametrize("was_complete", [True, False])
def test_a_start_takes_the_log_of_a_directory_that_was_proven_for_its_own(was_complete: bool) -> None:
    made = unproven(unattached(), voters=VoterSet())
    made.voter_history.record(Offset(3), KRaftVoters(voters=voter_set(1)))
    made.local = replace(made.local, proof=Proof(is_complete=False, was_complete=was_complete))
    begin(made, NOW)
    assert isinstance(made.state, Unattached) is not was_complete
    assert (made.survey is None) is was_complete


def test_the_only_voter_in_a_log_is_proven_by_its_leader() -> None:
    made = in_epoch_5(unproven(survey=surveyed(others=frozenset(), until_offset=Offset(10)), voters=VoterSet()))
    made.voter_history.record(Offset(3), KRaftVoters(voters=voter_set(1)))
    answer(made, fetched(batch(10, 12, epoch=5), epoch=5, leader_id=2))
    assert (made.survey, made.votes_above) == (None, 5)


def test_the_only_voter_of_a_checkpoint_without_a_log_leads() -> None:
    made = unproven(unattached(), is_empty=True, voters=VoterSet())
    made.voter_history.record(Offset(-1), KRaftVoters(voters=voter_set(1)))
    settle_proof(made, NOW)
    assert made.survey is None


STORIES: Final = 400
REQUESTS_MAX: Final = 12


def static() -> Replica:
    """A leader of static voters that have told who they are."""
    made = replica(leader(high_watermark=11))
    assert isinstance(made.state, Leader)
    made.state.volatile_voters = VoterSet.of(replace(one, kraft_version=KRAFT_VERSIONS) for one in made.voters.voters)
    return made


def following() -> Replica:
    return replica(follower())


def any_key(rng: Random) -> ReplicaKey:
    node_id = rng.choice([-5, -1, 0, 1, 2, 3, 4, INT32_MAX])
    return ReplicaKey(NodeId(node_id), rng.choice([None, ZERO_UUID, *map(directory, (1, 2, 3, 4))]))


def any_listeners(rng: Random) -> Listeners:
    elsewhere, nowhere = Listeners((("OTHER", Endpoint("x", 0)),)), Listeners(((LISTENER, Endpoint("", 0)),))
    return rng.choice([Listeners(), elsewhere, nowhere, *map(listeners, (1, 2, 4))])


def any_request(rng: Random) -> messages.Request:
    timeout_ms = rng.choice([-1, 0, 1, 1_000, INT32_MAX])
    makers: list[Callable[[], messages.Request]] = [
        lambda: messages.AddVoterRequest(
            voter=any_key(rng),
            listeners=any_listeners(rng),
            timeout_ms=timeout_ms,
            ack_when_committed=rng.random() < 0.5,
        ),
        lambda: messages.RemoveVoterRequest(voter=any_key(rng)),
        lambda: messages.UpdateVoterRequest(
            epoch=Epoch(rng.choice([-1, 0, 4, 5, 6, INT32_MAX])),
            voter=any_key(rng),
            listeners=any_listeners(rng),
            kraft_version=VersionRange(rng.choice([-1, 0, 1, 2]), rng.choice([-1, 0, 1, 2, 32_767])),
        ),
        lambda: messages.UpdateFeaturesRequest(
            kraft_version=rng.choice([-1, 0, 1, 2, 32_767]), validate_only=rng.random() < 0.3
        ),
        lambda: messages.TransferLeadershipRequest(
            target_id=NodeId(rng.choice([-1, 0, 1, 2, 3, 4, INT32_MAX])), timeout_ms=timeout_ms
        ),
    ]
    return rng.choice(makers)()


@pytest.mark.parametrize("seed", range(4))
def test_nothing_that_is_asked_ends_a_replica(seed: int) -> None:
    rng = Random(seed)
    for _ in range(STORIES):
        makers: list[Callable[[], Replica]] = [dynamic, static, following]
        made = rng.choice(makers)()
        told: list[messages.Request] = []
        for number in range(rng.randrange(1, REQUESTS_MAX)):
            told.append(any_request(rng))
            try:
                on_request(made, RequestReceived(request_id=number, listener=LISTENER, message=told[-1]), NOW)
            except ProtocolError:
                continue
            except Exception as error:
                error.add_note(f"after {told}")
                raise
            poll(made, later(rng.randrange(500)))
            done(made)

"""A simulated Java voter denies pre-votes after EndQuorumEpoch and a refusal, and asks nobody twice in a round."""

from dataclasses import replace
from random import Random

from pykraft.core import messages
from pykraft.core.effects import Send
from pykraft.core.events import Event, RequestReceived, SendFailed
from pykraft.core.raft import Raft
from pykraft.core.replica import LocalReplica
from pykraft.core.state import Follower, Prospective, State
from pykraft.core.voter_history import VoterHistory
from pykraft.errors import ErrorCode
from pykraft.sim.machine.kafka_rules import KafkaRaft
from pykraft.types import Epoch, NodeId
from tests.core.replicas import (
    CONFIG,
    LISTENER,
    NOW,
    directory,
    follower,
    key,
    listeners,
    log_to_10,
    prospective,
    tally,
)
from tests.core.replicas import voter_set as voters
from tests.core.said import vote


def made(kind: type[Raft], state: State) -> Raft:
    local = LocalReplica(id=NodeId(1), directory_id=directory(1), listeners=listeners(1), default_listener=LISTENER)
    one = kind(
        config=CONFIG,
        local=local,
        voter_history=VoterHistory(voters(1, 2, 3)),
        election=None,
        log=log_to_10(),
        rng=Random(1),
        now=NOW,
    )
    one._replica.state = state
    return one


def after(event: Event, state: State) -> tuple[State, State]:
    """What ours and Kafka's become."""
    ours, kafkas = made(Raft, state), made(KafkaRaft, state)
    ours.step(event, NOW)
    kafkas.step(event, NOW)
    return ours.state, kafkas.state


def request(message: messages.Request) -> RequestReceived:
    return RequestReceived(request_id=1, listener=LISTENER, message=message)


def test_the_end_of_an_epoch_moves_the_timer_only() -> None:
    ended = messages.EndQuorumEpochRequest(epoch=Epoch(5), leader_id=NodeId(2), successors=(key(3), key(1)))
    ours, kafkas = after(request(ended), follower(has_fetched=True))
    assert isinstance(ours, Follower)
    assert isinstance(kafkas, Follower)
    # Ours waits until the leader confirms it.
    assert (ours.has_fetched, ours.leader_has_left, ours.successors) == (True, False, (key(3), key(1)))
    assert (kafkas.has_fetched, kafkas.leader_has_left) == (True, False)
    ours, kafkas = after(request(replace(ended, successors=(key(1),))), follower(has_fetched=True))
    assert isinstance(ours, Follower)
    assert isinstance(kafkas, Prospective)
    assert not kafkas.leader_has_left


def test_a_refused_connection_tells_nothing() -> None:
    failed = SendFailed(peer_id=2, correlation_id=1, error=ErrorCode.BROKER_NOT_AVAILABLE, is_refused=True)
    for kind, has_fetched in ((Raft, False), (KafkaRaft, True)):
        one = made(kind, follower(has_fetched=True))
        sent = one._replica.connections.sent(2, NOW.mono_ms)
        one.step(replace(failed, correlation_id=sent), NOW)
        assert isinstance(one.state, Follower)
        assert one.state.has_fetched == has_fetched


def test_who_denied_is_not_asked_again_in_the_same_round() -> None:
    state = prospective(count=tally(rejected=(3,)))
    shorter = request(vote(epoch=5, candidate=3, end=(9, 3), pre_vote=True))
    for kind, asked in ((Raft, [2, 3]), (KafkaRaft, [2])):
        one = made(kind, state)
        found = one.step(shorter, NOW)
        assert [each.peer.id for each in found if isinstance(each, Send)] == asked
        assert isinstance(one.state, Prospective)
        assert (3 in one.state.tally.rejected) == (kind is KafkaRaft)
        assert one._replica.connections.is_ready(3) == (kind is KafkaRaft)

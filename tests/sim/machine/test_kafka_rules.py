"""A simulated Java voter denies pre-votes after EndQuorumEpoch and a refusal, and asks nobody twice in a round.

An older program gets, and offers, only the versions that it knows; all other frames pass unchanged.
"""

from dataclasses import replace
from random import Random

import pytest

from pykraft.core import messages
from pykraft.core.effects import Send
from pykraft.core.events import Event, RequestReceived, SendFailed
from pykraft.core.raft import Raft
from pykraft.core.replica import LocalReplica
from pykraft.core.state import Follower, Prospective, State
from pykraft.core.voter_history import VoterHistory
from pykraft.errors import ErrorCode
from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import decode_response, encode_request, encode_response
from pykraft.protocol.frame import frame
from pykraft.protocol.messages import API_VERSIONS, ApiKey
from pykraft.rpc.api_versions import request_to_wire, response_to_wire
from pykraft.sim.machine.dialect import KAFKA_3_8, KAFKA_3_9, Dialect, Negotiation
from pykraft.sim.machine.kafka_rules import KafkaRaft
from pykraft.types import Buffer, Epoch, NodeId, VersionRange
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


HERE, ELSEWHERE = ConnectionId(1), ConnectionId(2)
VERSION = 3
LENGTH_SIZE_BYTES = 4


def bytes_of(parts: list[Buffer]) -> bytes:
    return b"".join(map(bytes, parts))


ASKED = bytes_of(encode_request(ApiKey.API_VERSIONS, VERSION, 7, "client", request_to_wire("1.0")))
ANSWER = bytes_of(
    encode_response(ApiKey.API_VERSIONS, VERSION, 7, response_to_wire(VERSION, API_VERSIONS, VersionRange(0, 1)))
)


def offered(answer: bytes) -> dict[int, int]:
    correlation_id, body = decode_response(ApiKey.API_VERSIONS, VERSION, answer)
    assert correlation_id == 7
    return {one["api_key"]: one["max_version"] for one in body["api_keys"]}


@pytest.mark.parametrize("dialect", [KAFKA_3_8, KAFKA_3_9])
def test_what_it_answers_is_cut_down(dialect: Dialect) -> None:
    negotiation = Negotiation(dialect)
    assert negotiation.received(HERE, ASKED) == ASKED
    sent = bytes_of(list(negotiation.sent(HERE, frame([ANSWER]))))
    expected = {int(key): dialect.highest.get(key, versions.max) for key, versions in API_VERSIONS.items()}
    assert offered(sent[LENGTH_SIZE_BYTES:]) == expected
    assert int.from_bytes(sent[:LENGTH_SIZE_BYTES], "big") == len(sent) - LENGTH_SIZE_BYTES


def test_what_it_is_answered_is_cut_down_too() -> None:
    negotiation = Negotiation(KAFKA_3_8)
    negotiation.sent(HERE, frame([ASKED]))
    assert offered(negotiation.received(HERE, ANSWER))[ApiKey.VOTE] == 0


def test_an_answer_that_cannot_be_read_passes_unchanged() -> None:
    """It is one to another version, since a bit of the question flipped on its way (seed 2680 of all)."""
    negotiation = Negotiation(KAFKA_3_8)
    negotiation.sent(HERE, frame([ASKED]))
    other = ANSWER + b"none"
    assert negotiation.received(HERE, other) == other


def test_an_answer_to_a_version_that_nobody_knows_is_one_in_version_0() -> None:
    negotiation = Negotiation(KAFKA_3_8)
    negotiation.received(HERE, ASKED[:2] + (16_387).to_bytes(2, "big") + ASKED[4:])
    body = response_to_wire(0, API_VERSIONS, VersionRange(0, 1))
    sent = bytes_of(list(negotiation.sent(HERE, frame(encode_response(ApiKey.API_VERSIONS, 0, 7, body)))))
    _, body = decode_response(ApiKey.API_VERSIONS, 0, sent[LENGTH_SIZE_BYTES:])
    assert {one["api_key"]: one["max_version"] for one in body["api_keys"]}[ApiKey.VOTE] == 0


def test_only_the_answer_to_that_question_is_touched() -> None:
    negotiation = Negotiation(KAFKA_3_8)
    negotiation.received(HERE, ASKED)
    other = frame([b"\0\0\0\1 anything else"])
    assert negotiation.sent(ELSEWHERE, other) is other
    negotiation.sent(HERE, frame([ANSWER]))
    assert negotiation.sent(HERE, other) is other
    assert negotiation.received(HERE, ANSWER) == ANSWER


def test_old_versions_are_older_than_ours() -> None:
    for dialect in (KAFKA_3_8, KAFKA_3_9):
        assert all(highest in API_VERSIONS[key] for key, highest in dialect.highest.items())
        assert dialect.highest[ApiKey.VOTE] < API_VERSIONS[ApiKey.VOTE].max

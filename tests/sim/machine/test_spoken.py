"""What frames say about epochs, votes and logs, read from frames of production code.

A wiretap distinguishes requests from answers, and knows which Fetches are outstanding.
"""

from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.core.state import Follower
from pykraft.errors import ErrorCode
from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import decode_request_header, encode_request, encode_response, frame
from pykraft.protocol.messages import ApiKey
from pykraft.sim.flipped_frame import FlippedFrame
from pykraft.sim.machine.spoken import (
    EPOCH_FIELDS,
    Departure,
    LogEnd,
    Spoken,
    VoteAsked,
    Wiretap,
    asked_epoch,
    departure,
    spoken_in_answer,
    spoken_in_request,
    spoken_in_vote,
    vote_asked,
)
from pykraft.sim.scenario.settings import listeners_of
from pykraft.types import Buffer, Epoch, NodeId

OWN_LOG = LogEnd(epoch=1, offset=3)


def topics(**partition: Any) -> dict[str, Any]:
    return {"topics": [{"topic_name": "t", "partitions": [{"partition_index": 0, **partition}]}]}


def vote(version: int, *, pre_vote: bool = False) -> list[Buffer]:
    fields = {"replica_epoch": 3, "replica_id": 2, "last_offset_epoch": 1, "last_offset": 4}
    body = topics(**fields, **({"pre_vote": pre_vote} if version >= 2 else {}))
    return frame(encode_request(ApiKey.VOTE, version, 1, "c", body))


def heard(parts: list[Buffer]) -> VoteAsked:
    data = b"".join(parts)[4:]
    return vote_asked(decode_request_header(data), data, OWN_LOG)


def answer(version: int, *, granted: bool, error: int = 0, leader_id: int = -1) -> list[Buffer]:
    body = topics(error_code=0, leader_id=leader_id, leader_epoch=5, vote_granted=granted)
    return frame(encode_response(ApiKey.VOTE, version, 1, {"error_code": error, **body}))


def asked(*, version: int = 2, is_pre_vote: bool = False) -> VoteAsked:
    return VoteAsked(
        version=version,
        epoch=3,
        candidate_id=2,
        is_pre_vote=is_pre_vote,
        candidate_log=LogEnd(epoch=1, offset=4),
        voter_log=OWN_LOG,
    )


def fetch_request(replica_id: int = 3, **fields: Any) -> list[Buffer]:
    partition = {
        "partition": 0,
        "current_leader_epoch": 5,
        "fetch_offset": 9,
        "last_fetched_epoch": 4,
        "partition_max_bytes": 0,
    }
    body = {
        "max_wait_ms": 0,
        "replica_state": {"replica_id": replica_id},
        "min_bytes": 0,
        "topics": [{"topic_id": bytes(16), "partitions": [partition]}],
        "forgotten_topics_data": [],
        **fields,
    }
    return frame(encode_request(ApiKey.FETCH, 17, 1, "c", body))


def fetched(epoch: int, records: bytes | None) -> list[Buffer]:
    told = {
        "partition_index": 0,
        "error_code": 0,
        "high_watermark": 0,
        "aborted_transactions": None,
        "records": records,
        "current_leader": {"leader_id": 1, "leader_epoch": epoch},
    }
    body = {"error_code": 0, "responses": [{"topic_id": bytes(16), "partitions": [told]}]}
    return frame(encode_response(ApiKey.FETCH, 17, 1, body))


def test_logs_are_compared_by_epoch_and_then_by_length() -> None:
    logs = [LogEnd(epoch=epoch, offset=offset) for epoch, offset in ((1, 2), (1, 3), (2, 1))]
    assert [[one.is_at_least(other) for other in logs] for one in logs] == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_asking_for_votes_is_a_vote_for_oneself(version: int) -> None:
    assert spoken_in_request(vote(version), 7) == Spoken(epoch=3, candidate_id=2, target_id=7)
    assert heard(vote(version)) == asked(version=version)


def test_asking_for_pre_votes_promises_nothing() -> None:
    assert spoken_in_request(vote(2, pre_vote=True), 7) == Spoken(epoch=3, target_id=7)
    assert heard(vote(2, pre_vote=True)) == asked(is_pre_vote=True)


@pytest.mark.parametrize("api_key", [ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH])
def test_a_leader_speaks_of_its_epoch(api_key: ApiKey) -> None:
    body = topics(leader_id=1, leader_epoch=7)
    if api_key is ApiKey.END_QUORUM_EPOCH:
        body["topics"][0]["partitions"][0]["preferred_successors"] = []
    parts = frame(encode_request(api_key, 0, 1, "c", body))
    assert spoken_in_request(parts, 2) == Spoken(epoch=7, target_id=2)
    answered = topics(error_code=0, leader_id=1, leader_epoch=8)
    reply = frame(encode_response(api_key, 0, 1, {"error_code": 0, **answered}))
    data = b"".join(parts)[4:]
    header = decode_request_header(data)
    is_confirmed = api_key is ApiKey.BEGIN_QUORUM_EPOCH
    assert asked_epoch(header, data) == 7
    assert spoken_in_answer(header, reply, 7) == Spoken(epoch=8, confirms_leader=is_confirmed, served_epoch=7)
    refused = frame(
        encode_response(api_key, 0, 1, {"error_code": 0, **topics(error_code=104, leader_id=1, leader_epoch=8)})
    )
    assert spoken_in_answer(header, refused, 7) == Spoken(epoch=8)
    assert spoken_in_answer(header, frame(encode_response(api_key, 0, 1, {"error_code": 104, "topics": []}))) is None


def test_a_leader_that_leaves_may_name_who_follows_it() -> None:
    key = {"candidate_id": 3, "candidate_directory_id": bytes(16)}
    for version, fields, is_named in (
        (0, {"preferred_successors": []}, False),
        (0, {"preferred_successors": [3]}, True),
        (1, {"preferred_candidates": []}, False),
        (1, {"preferred_candidates": [key]}, True),
    ):
        endpoints: dict[str, list[object]] = {"leader_endpoints": []} if version else {}
        body = {**topics(leader_id=1, leader_epoch=7, **fields), **endpoints}
        data = b"".join(frame(encode_request(ApiKey.END_QUORUM_EPOCH, version, 1, "c", body)))[4:]
        told = departure(decode_request_header(data), data)
        assert told == Departure(epoch=7, leader_id=1, has_successors=is_named)


def test_a_fetch_says_what_its_sender_holds_and_its_answer_who_leads_and_what_is_handed_on() -> None:
    assert spoken_in_request(fetch_request(), 2) == Spoken(epoch=5, fetched=LogEnd(epoch=4, offset=9), target_id=2)
    assert spoken_in_request(fetch_request(-1), 2) == Spoken(epoch=5, target_id=2)
    assert spoken_in_request(fetch_request(-1, max_bytes=0), 2) == Spoken(epoch=5, target_id=2, is_question=True)
    header = decode_request_header(b"".join(fetch_request())[4:])
    assert spoken_in_answer(header, fetched(6, None)) == Spoken(epoch=6)
    assert spoken_in_answer(header, fetched(6, b"records")) == Spoken(epoch=6, served=b"records")


def test_other_requests_say_nothing() -> None:
    body = {"client_software_name": "a", "client_software_version": "1"}
    parts = frame(encode_request(ApiKey.API_VERSIONS, 3, 1, "c", body))
    assert ApiKey.API_VERSIONS not in EPOCH_FIELDS
    assert spoken_in_request(parts, 2) is None


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_granted_vote_is_a_promise_in_the_epoch_that_was_asked_for(version: int) -> None:
    question = asked(version=version)
    spoken = spoken_in_vote(question, answer(version, granted=True))
    assert spoken == Spoken(epoch=3, candidate_id=2, granted=question)


def test_denials_speak_of_an_epoch_and_its_leader_and_pre_votes_promise_nothing() -> None:
    assert spoken_in_vote(asked(), answer(2, granted=False)) == Spoken(epoch=5, served_epoch=3)
    denied = spoken_in_vote(asked(), answer(2, granted=False, leader_id=1))
    assert denied == Spoken(epoch=5, leader_id=1, served_epoch=3)
    question = asked(is_pre_vote=True)
    assert spoken_in_vote(question, answer(2, granted=True)) == Spoken(epoch=5, granted=question, served_epoch=3)
    denied = spoken_in_vote(question, answer(2, granted=False))
    assert denied == Spoken(epoch=5, denied=question, served_epoch=3)


def test_a_vote_that_is_refused_is_not_served() -> None:
    body = topics(error_code=ErrorCode.FENCED_LEADER_EPOCH, leader_id=-1, leader_epoch=5, vote_granted=False)
    refused = frame(encode_response(ApiKey.VOTE, 2, 1, {"error_code": 0, **body}))
    assert spoken_in_vote(asked(), refused) == Spoken(epoch=5)


def test_a_refusal_says_nothing() -> None:
    assert spoken_in_vote(asked(), answer(2, granted=False, error=104)) is None


HERE, THERE = ConnectionId(1), ConnectionId(2)
LOG = LogEnd(epoch=1, offset=3)


def core(*, is_proven: bool = True, **fields: Any) -> Any:
    """A follower of node 2."""
    state = Follower(
        epoch=Epoch(1),
        leader_id=NodeId(2),
        leader_listeners=listeners_of(2),
        fetch_deadline_ms=1,
        update_deadline_ms=1,
        **fields,
    )
    return SimpleNamespace(state=state, status=SimpleNamespace(is_proven=is_proven))


def data(version: int) -> bytes:
    return b"".join(vote(version))[4:]


def test_requests_are_heard_on_connections_that_were_dialed() -> None:
    wiretap = Wiretap(lambda: False, core)
    wiretap.dialed(HERE, 7)
    assert wiretap.says(HERE, vote(2), is_epoch_durable=True) == Spoken(epoch=3, candidate_id=2, target_id=7)


def test_the_answer_to_a_vote_is_read_by_its_question_once() -> None:
    wiretap = Wiretap(lambda: False, core)
    wiretap.heard(THERE, data(2), LOG, is_damaged=False)
    spoken = wiretap.says(THERE, answer(2, granted=True), is_epoch_durable=True)
    assert spoken == Spoken(epoch=3, candidate_id=2, granted=asked())
    assert wiretap.says(THERE, answer(2, granted=True), is_epoch_durable=True) is None
    wiretap.heard(THERE, data(2), LOG, is_damaged=False)
    wiretap.broke(THERE)
    assert wiretap.says(THERE, answer(2, granted=True), is_epoch_durable=True) is None


@pytest.mark.parametrize(
    ("core", "may_be_denied"),
    [
        (core(has_fetched=True), True),
        (core(), False),
        (core(has_fetched=True, leader_has_left=True), False),
        (core(is_proven=False), True),
        (None, True),
    ],
)
def test_a_voter_that_hears_its_leader_or_is_unproven_may_deny_a_pre_vote(core: Any, *, may_be_denied: bool) -> None:
    wiretap = Wiretap(lambda: False, lambda: core)
    wiretap.heard(THERE, b"".join(vote(2, pre_vote=True))[4:], LOG, is_damaged=False)
    spoken = wiretap.says(THERE, answer(2, granted=False), is_epoch_durable=True)
    assert spoken is not None
    assert spoken.denied is not None
    assert spoken.denied.may_be_denied == may_be_denied


def test_a_fetch_is_open_until_its_answer_comes_or_the_network_breaks() -> None:
    wiretap = Wiretap(lambda: False, core)
    wiretap.dialed(HERE, 7)
    wiretap.fetches(HERE, 5, led_epoch=2)
    assert wiretap.open_fetches == {HERE: 5}
    wiretap.heard(HERE, b"answer", LOG, is_damaged=False)
    assert not wiretap.open_fetches
    wiretap.fetches(HERE, 6, led_epoch=3)
    wiretap.broke(HERE)
    assert not wiretap.open_fetches


def test_answers_are_counted_by_who_gave_them() -> None:
    wiretap = Wiretap(lambda: False, core)
    wiretap.dialed(HERE, 7)
    wiretap.fetches(HERE, 5, led_epoch=2)
    for said in (b"answer to a Fetch", b"answer to a FetchSnapshot"):
        wiretap.heard(HERE, said, LOG, is_damaged=False)
    assert wiretap.fetch_answers == {7: 1}
    assert wiretap.answers == {7: 2}
    wiretap.fetches(HERE, 6, led_epoch=3)
    wiretap.heard(HERE, b"answer to a Fetch of a later epoch", LOG, is_damaged=False)
    wiretap.fetches(HERE, 7, led_epoch=None)
    wiretap.heard(HERE, b"answer to a Fetch of one who looks for the leader", LOG, is_damaged=False)
    assert wiretap.fetch_answers == {7: 3}
    assert wiretap.fetch_answers_in == {(7, 2): 1, (7, 3): 1}


def test_an_answer_with_records_is_read_while_the_disk_may_have_lied() -> None:
    is_rotten = [False]
    wiretap = Wiretap(lambda: is_rotten[0], core)
    question, reply = b"".join(fetch_request())[4:], fetched(6, b"records")
    for said in (None, Spoken(epoch=6, served=b"records")):
        wiretap.heard(THERE, question, LOG, is_damaged=False)
        assert wiretap.says(THERE, reply, is_epoch_durable=True) == said
        is_rotten[0] = True


def test_announcements_are_answered_for_their_epoch_and_goodbyes_are_kept() -> None:
    wiretap = Wiretap(lambda: False, core)
    partition = topics(leader_id=1, leader_epoch=7)
    goodbye = topics(leader_id=1, leader_epoch=7, preferred_successors=[])
    for api_key, body in ((ApiKey.BEGIN_QUORUM_EPOCH, partition), (ApiKey.END_QUORUM_EPOCH, goodbye)):
        question = b"".join(frame(encode_request(api_key, 0, 1, "c", body)))[4:]
        answered = topics(error_code=0, leader_id=1, leader_epoch=7)
        reply = frame(encode_response(api_key, 0, 1, {"error_code": 0, **answered}))
        wiretap.heard(THERE, question, LOG, is_damaged=False)
        spoken = wiretap.says(THERE, reply, is_epoch_durable=True)
        assert spoken is not None
        assert spoken.served_epoch == 7
        wiretap.heard(THERE, question, LOG, is_damaged=False)
        wiretap.broke(THERE)
        assert wiretap.says(THERE, reply, is_epoch_durable=True) is None
    assert wiretap.departures == 2 * [Departure(epoch=7, leader_id=1, has_successors=False)]


def test_refused_dials_are_counted_for_the_node_that_was_dialed() -> None:
    wiretap = Wiretap(lambda: False, core)
    wiretap.dialed(HERE, 7)
    wiretap.broke(HERE, is_refused=True)
    wiretap.dialed(THERE, 7)
    wiretap.broke(THERE)
    assert wiretap.refusals == {7: 1}


def test_a_frame_with_a_flipped_bit_counts_for_nothing_where_it_may_not_be_understood() -> None:
    wiretap = Wiretap(lambda: False, core)
    wiretap.dialed(HERE, 7)
    wiretap.fetches(HERE, 5, led_epoch=2)
    wiretap.heard(HERE, FlippedFrame(b"answer"), LOG, is_damaged=False)
    assert not wiretap.open_fetches
    assert not wiretap.answers
    goodbye = topics(leader_id=1, leader_epoch=7, preferred_successors=[])
    question = b"".join(frame(encode_request(ApiKey.END_QUORUM_EPOCH, 0, 1, "c", goodbye)))[4:]
    wiretap.heard(THERE, FlippedFrame(question), LOG, is_damaged=False)
    assert wiretap.departures == [Departure(epoch=7, leader_id=1, has_successors=True)]
    for unreadable in (question[:-1], b""):
        wiretap.heard(THERE, FlippedFrame(unreadable), LOG, is_damaged=False)
    assert len(wiretap.departures) == 1
    wiretap.heard(THERE, FlippedFrame(data(2)), LOG, is_damaged=False)
    assert wiretap.says(THERE, answer(2, granted=True), is_epoch_durable=True) is not None

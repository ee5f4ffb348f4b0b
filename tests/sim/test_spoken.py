"""What frames say of epochs and votes, read from frames that production code made."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.protocol.api import encode_request, encode_response
from pykraft.protocol.frame import frame
from pykraft.protocol.messages import ApiKey
from pykraft.sim.spoken import EPOCH_FIELDS, Spoken, VoteAsked, spoken_in_answer, spoken_in_request, vote_asked
from pykraft.types import Buffer


def topics(**partition: Any) -> dict[str, Any]:
    return {"topics": [{"topic_name": "t", "partitions": [{"partition_index": 0, **partition}]}]}


def vote(version: int, *, pre_vote: bool = False) -> list[Buffer]:
    fields = {"replica_epoch": 3, "replica_id": 2, "last_offset_epoch": 1, "last_offset": 4}
    body = topics(**fields, **({"pre_vote": pre_vote} if version >= 2 else {}))
    return frame(encode_request(ApiKey.VOTE, version, 1, "c", body))


def answer(version: int, *, granted: bool, error: int = 0) -> list[Buffer]:
    body = topics(error_code=0, leader_id=-1, leader_epoch=5, vote_granted=granted)
    return frame(encode_response(ApiKey.VOTE, version, 1, {"error_code": error, **body}))


def asked(*, version: int = 2, is_pre_vote: bool = False) -> VoteAsked:
    return VoteAsked(version=version, epoch=3, candidate_id=2, is_pre_vote=is_pre_vote)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_asking_for_votes_is_a_vote_for_oneself(version: int) -> None:
    assert spoken_in_request(vote(version)) == Spoken(epoch=3, candidate_id=2)
    assert vote_asked(b"".join(vote(version))[4:]) == asked(version=version)


def test_asking_for_pre_votes_promises_nothing() -> None:
    assert spoken_in_request(vote(2, pre_vote=True)) == Spoken(epoch=3)
    assert vote_asked(b"".join(vote(2, pre_vote=True))[4:]) == asked(is_pre_vote=True)


@pytest.mark.parametrize("api_key", [ApiKey.BEGIN_QUORUM_EPOCH, ApiKey.END_QUORUM_EPOCH])
def test_a_leader_speaks_of_its_epoch(api_key: ApiKey) -> None:
    body = topics(leader_id=1, leader_epoch=7)
    if api_key is ApiKey.END_QUORUM_EPOCH:
        body["topics"][0]["partitions"][0]["preferred_successors"] = []
    parts = frame(encode_request(api_key, 0, 1, "c", body))
    assert spoken_in_request(parts) == Spoken(epoch=7)
    assert vote_asked(b"".join(parts)[4:]) is None


def test_other_requests_say_nothing() -> None:
    body = {"client_software_name": "a", "client_software_version": "1"}
    parts = frame(encode_request(ApiKey.API_VERSIONS, 3, 1, "c", body))
    assert ApiKey.API_VERSIONS not in EPOCH_FIELDS
    assert spoken_in_request(parts) is None


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_granted_vote_is_a_promise_in_the_epoch_that_was_asked_for(version: int) -> None:
    spoken = spoken_in_answer(asked(version=version), answer(version, granted=True))
    assert spoken == Spoken(epoch=3, candidate_id=2)


def test_denials_and_pre_votes_speak_of_an_epoch_only() -> None:
    assert spoken_in_answer(asked(), answer(2, granted=False)) == Spoken(epoch=5)
    assert spoken_in_answer(asked(is_pre_vote=True), answer(2, granted=True)) == Spoken(epoch=5)


def test_a_refusal_says_nothing() -> None:
    assert spoken_in_answer(asked(), answer(2, granted=False, error=104)) is None

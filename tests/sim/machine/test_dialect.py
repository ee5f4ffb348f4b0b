"""An older program gets, and offers, only the versions that it knows; all other frames pass unchanged."""

import pytest

from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import decode_response, encode_request, encode_response, frame
from pykraft.protocol.messages import API_VERSIONS, ApiKey
from pykraft.rpc.api_versions import request_to_wire, response_to_wire
from pykraft.sim.machine.dialect import KAFKA_3_8, KAFKA_3_9, Dialect, Negotiation
from pykraft.types import Buffer, VersionRange

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

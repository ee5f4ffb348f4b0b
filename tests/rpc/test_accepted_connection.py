"""An accepted connection reads and writes what the codec does, the first time and later.

Source: ADR 071.
"""

from dataclasses import replace

from pykraft.errors import ErrorCode
from pykraft.host.inbound import ANSWERED_KEYS, AcceptedConnection
from pykraft.protocol.api import decode_request_header
from pykraft.protocol.messages import ApiKey
from pykraft.rpc import codec
from pykraft.rpc.context import Refusal
from pykraft.types import Offset
from tests.host.fakes import CONTEXT
from tests.rpc.test_fetch_template import ANSWER, HEADER, REQUEST, plain_answer, plain_request, read_by_codec


def test_it_answers_what_the_core_answers() -> None:
    assert ApiKey.FETCH in ANSWERED_KEYS
    assert ApiKey.API_VERSIONS not in ANSWERED_KEYS


def test_a_fetch_that_repeats_is_read_without_the_codec() -> None:
    accepted = AcceptedConnection(CONTEXT)
    for offset in range(2):
        data = plain_request(replace(REQUEST, fetch_offset=Offset(offset)), 18, offset)
        assert accepted.repeated(data) is None
        header, message = read_by_codec(data)
        assert accepted.decode(header, data) == message
    data = plain_request(replace(REQUEST, fetch_offset=Offset(2)), 18, 2)
    assert accepted.repeated(data) == read_by_codec(data)


def test_other_requests_are_left_to_the_codec() -> None:
    accepted = AcceptedConnection(CONTEXT)
    data = plain_request(REQUEST, 12, 1)
    for _ in range(4):
        assert accepted.repeated(data) is None
        assert accepted.decode(decode_request_header(data), data) == read_by_codec(data)[1]


def test_answers_are_the_codecs() -> None:
    accepted = AcceptedConnection(CONTEXT)
    for records in ([], [b"some"], [b"others", b"and more"]):
        assert b"".join(accepted.encode(HEADER, ANSWER, records)) == plain_answer(HEADER, ANSWER, records)
    refusal = Refusal(ErrorCode.INVALID_REQUEST, {"error_code": ErrorCode.INVALID_REQUEST})
    assert accepted.encode(HEADER, refusal) == codec.encode_answer(HEADER, refusal, CONTEXT)

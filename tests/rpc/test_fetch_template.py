"""Fetches from templates are those of the codec, byte for byte and field for field, whatever bytes arrive."""

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pykraft.core.messages import FetchRequest, FetchResponse, Response, TopLevelError
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.api import RequestHeader, decode_request_header
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.messages.fetch import HIGH_WATERMARK_NOT_TOLD
from pykraft.rpc import codec
from pykraft.rpc.fetch_template import COPIED_SIZE_BYTES_MAX, AnswerReader, AnswerWriter, RequestReader, RequestWriter
from pykraft.types import Endpoint, Epoch, Listeners, NodeId, Offset, OffsetAndEpoch, ReplicaKey, Uuid
from tests.host.fakes import CONTEXT

CLIENT = "raft-client-1"
REQUEST = FetchRequest(
    replica=ReplicaKey(NodeId(1), Uuid(bytes(range(16)))),
    epoch=Epoch(3),
    fetch_offset=Offset(7),
    last_fetched_epoch=Epoch(3),
    wait_ms_max=500,
    size_bytes_max=1 << 20,
    high_watermark=5,
)
ANSWER = FetchResponse(
    error=0,
    epoch=Epoch(3),
    leader_id=NodeId(2),
    high_watermark=Offset(7),
    log_start_offset=Offset(0),
    listeners=Listeners(((CONTEXT.default_listener, Endpoint("localhost", 9093)),)),
)
HEADER = RequestHeader(ApiKey.FETCH, 18, 1, CLIENT, 0)

offsets = st.integers(0, 2**63 - 1).map(Offset)
requests = st.builds(
    replace,
    st.sampled_from(
        (REQUEST, replace(REQUEST, replica=None, is_committed_only=True), replace(REQUEST, epoch=Epoch(4)))
    ),
    fetch_offset=offsets,
    high_watermark=st.none() | st.integers(-1, 2**63 - 1),
)
answers = st.builds(
    replace,
    st.sampled_from(
        (
            ANSWER,
            replace(ANSWER, epoch=Epoch(4)),
            replace(ANSWER, error=int(ErrorCode.NOT_LEADER_OR_FOLLOWER)),
            replace(ANSWER, diverging=OffsetAndEpoch(Offset(3), Epoch(2))),
            replace(ANSWER, snapshot_id=OffsetAndEpoch(Offset(3), Epoch(2))),
        )
    ),
    high_watermark=st.none() | offsets,
)
records = st.lists(st.binary(max_size=300), max_size=3)
ids = st.integers(0, 2**31 - 1)


def plain_request(message: FetchRequest, version: int, correlation_id: int) -> bytes:
    return b"".join(codec.encode_request(message, version, correlation_id, CLIENT, CONTEXT))


def plain_answer(header: RequestHeader, message: Response, parts: list[bytes]) -> bytes:
    return b"".join(codec.encode_answer(header, message, CONTEXT, parts))


def read_by_codec(data: bytes) -> tuple[RequestHeader, object]:
    header = decode_request_header(data)
    return header, codec.decode_request(header, data, CONTEXT)


def taught(data: bytes) -> RequestReader:
    """A reader that has seen this frame often enough."""
    reader = RequestReader()
    header, message = read_by_codec(data)
    assert isinstance(message, FetchRequest)
    for _ in range(2):
        reader.missed(data, header, message, CONTEXT)
    return reader


def taught_answers(data: bytes) -> AnswerReader:
    reader = AnswerReader()
    answer = codec.decode_answer(ApiKey.FETCH, 18, data, CONTEXT)
    for _ in range(2):
        reader.missed(data, 18, (answer.correlation_id, answer.message, answer.records), CONTEXT)
    return reader


def damaged(data: bytes) -> Iterator[bytes]:
    """Each byte changed in several ways, one byte less, one more."""
    for at in range(len(data)):
        for mask in (1, 0x80, 0xFF):
            yield data[:at] + bytes((data[at] ^ mask,)) + data[at + 1 :]
        yield data[:at] + data[at + 1 :]
        yield data[:at] + b"\0" + data[at:]
    yield data[:-1]
    yield data + b"\0"


@given(st.lists(st.tuples(requests, st.sampled_from((12, 17, 18)), ids), min_size=1, max_size=6))
def test_written_requests_are_the_codecs(sent: list[tuple[FetchRequest, int, int]]) -> None:
    writer = RequestWriter(CLIENT)
    for message, version, correlation_id in sent:
        written = b"".join(writer.write(message, version, correlation_id, CONTEXT))
        assert written == plain_request(message, version, correlation_id)


@given(st.lists(st.tuples(requests, st.sampled_from((17, 18)), ids), min_size=1, max_size=6))
def test_read_requests_are_the_codecs(sent: list[tuple[FetchRequest, int, int]]) -> None:
    reader = taught(plain_request(REQUEST, 18, 1))
    for message, version, correlation_id in sent:
        data = plain_request(message, version, correlation_id)
        found = reader.read(data)
        assert found in (None, read_by_codec(data))
        if found is None:
            header, read = read_by_codec(data)
            assert isinstance(read, FetchRequest)
            reader.missed(data, header, read, CONTEXT)


def test_a_repeated_request_is_read_by_the_template() -> None:
    later = replace(REQUEST, fetch_offset=Offset(900), high_watermark=-1)
    data = plain_request(later, 18, 77)
    assert taught(plain_request(REQUEST, 18, 1)).read(data) == read_by_codec(data)


def test_a_watermark_that_is_not_told_is_left_to_the_codec() -> None:
    told = plain_request(replace(REQUEST, high_watermark=HIGH_WATERMARK_NOT_TOLD - 1), 18, 1)
    # The codec never writes this, but a peer may: the field with the value that means that it is absent.
    data = told.replace((HIGH_WATERMARK_NOT_TOLD - 1).to_bytes(8), HIGH_WATERMARK_NOT_TOLD.to_bytes(8))
    assert taught(told).read(data) is None
    assert taught(told).read(told) == read_by_codec(told)


def test_a_damaged_request_is_read_as_the_codec_reads_it_or_not_at_all() -> None:
    whole = plain_request(REQUEST, 18, 1)
    reader = taught(whole)
    for data in damaged(whole):
        found = reader.read(data)
        if found is not None:
            assert found == read_by_codec(data)


def test_a_peer_that_writes_otherwise_has_no_template() -> None:
    data = plain_request(REQUEST, 18, 1)
    # Unknown tagged fields at the end, which the codec skips.
    other = data[:-1] + b"\x01\x2a\x01\x00" if data[-1] == 0 else data + b"\0"
    reader = RequestReader()
    for _ in range(8):
        reader.missed(other, decode_request_header(data), REQUEST, CONTEXT)
    assert reader.read(other) is None


def test_a_peer_that_answers_otherwise_has_no_template() -> None:
    data = plain_answer(HEADER, ANSWER, [b"some"])
    other = data[:5] + b"\0\0\0\x07" + data[9:]  # a throttle time, which the message does not have
    plain = codec.decode_answer(ApiKey.FETCH, 18, other, CONTEXT)
    reader = AnswerReader()
    for _ in range(8):
        reader.missed(other, 18, (plain.correlation_id, plain.message, plain.records), CONTEXT)
    assert reader.read(other) is None


@given(st.lists(st.tuples(answers, records, ids), min_size=1, max_size=6))
def test_written_answers_are_the_codecs(sent: list[tuple[FetchResponse, list[bytes], int]]) -> None:
    writer = AnswerWriter()
    for message, parts, correlation_id in sent:
        header = replace(HEADER, correlation_id=correlation_id)
        written = writer.write(header, message, parts, CONTEXT)
        if written is not None:
            assert b"".join(written) == plain_answer(header, message, parts)


def test_a_repeated_answer_is_written_by_the_template() -> None:
    writer = AnswerWriter()
    assert writer.write(HEADER, ANSWER, [b"first"], CONTEXT) is None
    for parts in ([], [b"x" * 127], [b"x" * 200, b"y" * 312]):
        written = writer.write(HEADER, ANSWER, parts, CONTEXT)
        assert written is not None
        assert b"".join(written) == plain_answer(HEADER, ANSWER, parts)
    much = bytes(COPIED_SIZE_BYTES_MAX + 1)
    written = writer.write(HEADER, ANSWER, [much], CONTEXT)
    assert written is not None
    assert written[1] is much, "more is not copied"
    assert b"".join(written) == plain_answer(HEADER, ANSWER, [much])
    assert writer.write(HEADER, TopLevelError(error=1), [], CONTEXT) is None


@given(st.lists(st.tuples(answers, records, ids), min_size=1, max_size=6))
def test_read_answers_are_the_codecs(sent: list[tuple[FetchResponse, list[bytes], int]]) -> None:
    reader = taught_answers(plain_answer(HEADER, ANSWER, [b"some"]))
    for message, parts, correlation_id in sent:
        data = plain_answer(replace(HEADER, correlation_id=correlation_id), message, parts)
        plain = codec.decode_answer(ApiKey.FETCH, 18, data, CONTEXT)
        found = reader.read(data)
        if found is None:
            reader.missed(data, 18, (plain.correlation_id, plain.message, plain.records), CONTEXT)
        else:
            assert codec.Answer(*found) == plain


def test_a_repeated_answer_is_read_by_the_template() -> None:
    reader = taught_answers(plain_answer(HEADER, ANSWER, [b"some"]))
    for size_bytes in (0, 1, 126, 127, 128, 512, 16_382):
        data = plain_answer(HEADER, ANSWER, [b"r" * size_bytes])
        assert reader.read(data) == (1, ANSWER, b"r" * size_bytes)
    assert reader.read(plain_answer(HEADER, ANSWER, [b"r" * 16_383])) is None


def test_a_damaged_answer_is_read_as_the_codec_reads_it_or_not_at_all() -> None:
    for size_bytes in (40, 200):
        whole = plain_answer(HEADER, ANSWER, [b"r" * size_bytes])
        reader = taught_answers(whole)
        for data in damaged(whole):
            found = reader.read(data)
            if found is not None:
                assert codec.Answer(*found) == codec.decode_answer(ApiKey.FETCH, 18, data, CONTEXT)


def test_an_answer_that_the_codec_refuses_is_not_read() -> None:
    whole = plain_answer(HEADER, ANSWER, [b"r" * 40])
    reader, refused = taught_answers(whole), 0
    for data in damaged(whole):
        try:
            codec.decode_answer(ApiKey.FETCH, 18, data, CONTEXT)
        except ProtocolError:
            refused += 1
            assert reader.read(data) is None
    assert refused > 0

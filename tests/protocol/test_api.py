"""Headers of all versions, bodies after them, and requests of unknown APIs.

Kafka's own frames: reading and writing them again gives the same bytes.

Every request and response of our APIs among the recordings; of all other APIs the request headers.
"""

import re
import struct
from dataclasses import dataclass
from pathlib import Path

import pytest
from kio.index import load_request_schema

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.api import (
    API_VERSIONS,
    ApiKey,
    FrameReader,
    RequestHeader,
    decode_request_body,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    encode_unsupported_version,
    frame,
)
from pykraft.protocol.messages import APIS
from pykraft.protocol.schema import Versions

EVERY_VERSION = [
    (api_key, version)
    for api_key, versions in API_VERSIONS.items()
    for version in range(versions.min, versions.max + 1)
]


@pytest.mark.parametrize(("api_key", "version"), EVERY_VERSION)
@pytest.mark.parametrize("client_id", ["raft-client-1", "", None])
def test_requests_of_every_version_come_back(api_key: ApiKey, version: int, client_id: str | None) -> None:
    raw = b"".join(encode_request(api_key, version, 77, client_id, {}))
    header = decode_request_header(raw)
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (
        api_key,
        version,
        77,
        client_id,
    )
    body = decode_request_body(header, raw)
    assert b"".join(encode_request(api_key, version, 77, client_id, body)) == raw


@pytest.mark.parametrize(("api_key", "version"), EVERY_VERSION)
def test_responses_of_every_version_come_back(api_key: ApiKey, version: int) -> None:
    raw = b"".join(encode_response(api_key, version, -5, {"error_code": 0} if api_key != ApiKey.FETCH else {}))
    correlation_id, body = decode_response(api_key, version, raw)
    assert correlation_id == -5
    assert b"".join(encode_response(api_key, version, -5, body)) == raw


def test_request_headers_of_both_versions() -> None:
    plain = bytes.fromhex("0035 0000 00000007 0001 61")
    assert decode_request_header(plain + b"body") == RequestHeader(53, 0, 7, "a", 11)
    assert decode_request_header(plain[:2] + b"\0\1" + plain[4:] + b"\0body") == RequestHeader(53, 1, 7, "a", 12)


def test_tagged_fields_of_headers_are_skipped() -> None:
    raw = bytes.fromhex("0034 0002 00000007 ffff  02 00 01 61 c801 00") + b"body"
    assert decode_request_header(raw) == RequestHeader(52, 2, 7, None, len(raw) - 4)
    answer = b"".join(encode_response(ApiKey.VOTE, 2, 7, {}))
    assert decode_response(ApiKey.VOTE, 2, answer[:4] + b"\1\5\0" + answer[5:]) == decode_response(
        ApiKey.VOTE, 2, answer
    )


def test_the_header_of_an_api_versions_response_never_has_tags() -> None:
    for version in range(6):
        assert b"".join(encode_response(ApiKey.API_VERSIONS, version, 1, {}))[:6] == b"\0\0\0\1\0\0"


@pytest.mark.parametrize("size_bytes", range(10))
def test_a_request_header_that_is_cut_off_is_refused(size_bytes: int) -> None:
    with pytest.raises(ProtocolError, match=f"request header: needs 10 bytes at position 0, {size_bytes} remain"):
        decode_request_header(bytes(size_bytes))


def test_a_client_id_beyond_the_frame_is_refused() -> None:
    with pytest.raises(ProtocolError, match="request header: needs 5 bytes at position 10, 2 remain"):
        decode_request_header(struct.pack(">hhih", 52, 0, 1, 5) + b"ab")
    with pytest.raises(ProtocolError, match="request header: a string before position 10 has the length -2"):
        decode_request_header(struct.pack(">hhih", 52, 0, 1, -2) + b"ab")


def test_a_flexible_header_that_ends_before_its_tags_is_refused() -> None:
    with pytest.raises(ProtocolError):
        decode_request_header(struct.pack(">hhih", 52, 0, 1, -1))


def test_an_unknown_api_has_a_header_and_no_body() -> None:
    raw = struct.pack(">hhih", 999, 3, 8, 1) + b"x..."
    header = decode_request_header(raw)
    assert header == RequestHeader(999, 3, 8, "x", 11)
    with pytest.raises(ProtocolError, match="a request with the unknown key 999") as caught:
        decode_request_body(header, raw)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(("api_key", "version"), [(1, 3), (1, 19), (52, 3), (52, -1), (18, 99)])
def test_an_unknown_version_is_told_apart_from_a_malformed_request(api_key: int, version: int) -> None:
    raw = struct.pack(">hhih", api_key, version, 8, -1) + bytes(50)
    with pytest.raises(ProtocolError, match=rf"v{version}: only versions \d+-\d+ are supported") as caught:
        decode_request_body(decode_request_header(raw), raw)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_an_unknown_version_of_api_versions_is_answered_so_that_anyone_can_read_it() -> None:
    parts = encode_unsupported_version(9, [(1, Versions(4, 18)), (18, Versions(0, 5))])
    assert b"".join(parts).hex() == "00000009 0023 00000002 0001 0004 0012 0012 0000 0005".replace(" ", "")


@pytest.mark.parametrize("version", range(6))
def test_an_api_versions_answer_of_version_0_is_read_whatever_was_asked(version: int) -> None:
    raw = b"".join(encode_unsupported_version(9, [(18, Versions(0, 2))]))
    correlation_id, body = decode_response(ApiKey.API_VERSIONS, version, raw)
    assert correlation_id == 9
    assert body["error_code"] == ErrorCode.UNSUPPORTED_VERSION
    assert body["api_keys"] == [{"api_key": 18, "min_version": 0, "max_version": 2}]


def test_bytes_left_over_are_ignored_in_a_request_as_kafka_does_and_refused_in_a_response() -> None:
    raw = b"".join(encode_request(ApiKey.METADATA, 4, 1, "rdkafka", {"topics": None}))
    whole = decode_request_body(decode_request_header(raw), raw)
    assert decode_request_body(decode_request_header(raw + b"\0\0\0"), raw + b"\0\0\0") == whole
    answer = b"".join(encode_response(ApiKey.FETCH, 18, 1, {})) + b"ab"
    with pytest.raises(ProtocolError, match="2 bytes are left after the message"):
        decode_response(ApiKey.FETCH, 18, answer)


@pytest.mark.parametrize("size_bytes", range(4))
def test_a_response_without_a_correlation_id_is_refused(size_bytes: int) -> None:
    with pytest.raises(ProtocolError, match="response header: needs 4 bytes"):
        decode_response(ApiKey.FETCH, 18, bytes(size_bytes))


def test_a_malformed_api_versions_answer_is_refused_in_both_versions() -> None:
    for version in (0, 4):
        with pytest.raises(ProtocolError):
            decode_response(ApiKey.API_VERSIONS, version, b"\0\0\0\1\0")


@pytest.mark.parametrize("size_bytes", [10, 100_000])
def test_frames_may_be_any_buffer(size_bytes: int) -> None:
    records = b"r" * size_bytes
    raw = b"".join(encode_response(ApiKey.FETCH, 18, 1, {"responses": [{"partitions": [{"records": records}]}]}))
    for data in (raw, bytearray(raw), memoryview(raw)):
        _, body = decode_response(ApiKey.FETCH, 18, data)
        assert body["responses"][0]["partitions"][0]["records"] == records


def test_records_of_a_large_frame_are_a_view_of_it() -> None:
    raw = b"".join(encode_response(ApiKey.FETCH, 18, 1, {"responses": [{"partitions": [{"records": bytes(9000)}]}]}))
    _, body = decode_response(ApiKey.FETCH, 18, memoryview(raw))
    assert body["responses"][0]["partitions"][0]["records"].obj is raw


@pytest.mark.parametrize("body", [{"voter_id": 2**31}, {"voter_id": "1"}, {"cluster_id": 1}, {"cluster_id": "\ud800"}])
def test_a_value_that_does_not_fit_is_our_bug(body: dict[str, object]) -> None:
    with pytest.raises(AssertionError, match="a value does not fit its field"):
        encode_request(ApiKey.VOTE, 2, 1, None, body)


def test_both_tables_of_an_api_have_the_same_versions() -> None:
    for api in APIS.values():
        assert api.request.versions == api.response.versions
        assert api.request.flexible == api.response.flexible


GOLDEN = Path(__file__).parent.parent / "golden"
FILES = sorted(GOLDEN.glob("*/frames/*.txt"))


@dataclass(frozen=True, slots=True)
class Recorded:
    """One file: the facts in its comments, and the frames with their sizes."""

    facts: dict[str, str]
    request: bytes
    response: bytes


def load(path: Path) -> Recorded:
    text = path.read_text()
    frames = {
        name: bytes.fromhex(digits) for name, digits in re.findall(r"^(request|response) (\w+)$", text, re.MULTILINE)
    }
    return Recorded(dict(re.findall(r"^# (\w+): (.*)$", text, re.MULTILINE)), frames["request"], frames["response"])


def unframed(raw: bytes) -> bytes:
    (found,) = FrameReader(2**20).feed(raw)
    return bytes(found)


def file_id(path: Path) -> str:
    return f"{path.parent.parent.name}/{path.stem}"


OURS = [path for path in FILES if int(path.name.split("-")[0]) in API_VERSIONS]
PRODUCED = [path for path in FILES if int(path.name.split("-")[0]) == ApiKey.PRODUCE]
"""Of the other clients' APIs a broker's answers have more topics than a quorum has."""
OTHERS = [path for path in FILES if int(path.name.split("-")[0]) not in APIS]


def test_the_recordings_are_there() -> None:
    never_recorded = {ApiKey.UPDATE_FEATURES, ApiKey.TRANSFER_LEADERSHIP}
    assert {int(path.name.split("-")[0]) for path in OURS} == set(API_VERSIONS) - never_recorded
    assert len(OURS) == 101
    assert len(PRODUCED) == 4
    assert len(OTHERS) == 18


@pytest.mark.parametrize("path", [*OURS, *PRODUCED], ids=file_id)
def test_requests_and_responses_come_back_as_the_same_bytes(path: Path) -> None:
    recorded = load(path)
    raw = unframed(recorded.request)
    header = decode_request_header(raw)
    body = decode_request_body(header, raw)
    version = header.api_version
    parts = encode_request(header.api_key, version, header.correlation_id, header.client_id, body)
    assert b"".join(frame(parts)) == recorded.request
    correlation_id, answer = decode_response(header.api_key, version, unframed(recorded.response))
    assert correlation_id == header.correlation_id
    assert b"".join(frame(encode_response(header.api_key, version, correlation_id, answer))) == recorded.response


@pytest.mark.parametrize("path", FILES, ids=file_id)
def test_headers_say_what_the_recorder_saw(path: Path) -> None:
    recorded = load(path)
    raw = unframed(recorded.request)
    header = decode_request_header(raw)
    assert header.api_key == int(recorded.facts["api_key"])
    assert header.api_version == int(recorded.facts["api_version"])
    assert header.correlation_id == int(recorded.facts["correlation_id"])
    assert header.client_id == recorded.facts["client_id"]


@pytest.mark.parametrize("path", OTHERS, ids=file_id)
def test_headers_of_other_apis_end_where_the_twin_says(path: Path) -> None:
    """An API that we do not have may be flexible: its header then ends with the tag count, which is zero."""
    raw = unframed(load(path).request)
    header = decode_request_header(raw)
    flexible = load_request_schema(header.api_key, header.api_version).__header_schema__.__version__ == 2
    assert header.body_position == 10 + len((header.client_id or "").encode())
    assert not flexible or raw[header.body_position] == 0

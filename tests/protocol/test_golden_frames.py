"""Kafka's own frames: reading and writing them again gives the same bytes.

Every request and response of our APIs among the recordings; of all other APIs the request headers.

Source: frames that Kafka sent and received (tests/golden); Kafka's message definitions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from kio.index import load_request_schema

from pykraft.protocol.api import (
    decode_request_body,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from pykraft.protocol.frame import FrameReader, frame
from pykraft.protocol.messages import API_VERSIONS, APIS, ApiKey

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
"""All but Produce, which was recorded in version 13 only; ours are 3 to 12."""
OTHERS = [path for path in FILES if int(path.name.split("-")[0]) not in APIS]


def test_the_recordings_are_there() -> None:
    never_recorded = {ApiKey.UPDATE_FEATURES, ApiKey.TRANSFER_LEADERSHIP}
    assert {int(path.name.split("-")[0]) for path in OURS} == set(API_VERSIONS) - never_recorded
    assert len(OURS) == 101
    assert len(OTHERS) > 30


@pytest.mark.parametrize("path", OURS, ids=file_id)
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

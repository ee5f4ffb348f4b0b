"""Requests and responses as frames: their headers, and the reader or writer for each body.

    request header v1    api key int16, api version int16, correlation id int32, client id string? (int16 length)
    request header v2    the same, the client id too, then tagged fields; for flexible versions
    response header v0   correlation id int32
    response header v1   the same, then tagged fields; for flexible versions, but never for ApiVersions

Invariant: a decoded message uses up its frame; left-over bytes are a `ProtocolError`. Frames here exclude the 4-byte
size, which `frame` handles. Tagged fields of headers are skipped: none are defined yet.

A request with an unknown key or version still gets a header. If it is ApiVersions, `encode_unsupported_version` answers
it; for any other there is no answer that the peer could read.

Source: Kafka protocol guide §Protocol; KIP-482; KIP-511.
"""

import struct
from collections.abc import Iterable
from functools import cache

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.messages import API_VERSIONS, APIS, ApiKey
from pykraft.protocol.primitives import cut_off, encode_string, read_text, skip_tags
from pykraft.protocol.reader import Read, compile_reader
from pykraft.protocol.schema import Body, Versions
from pykraft.protocol.writer import Write, compile_writer
from pykraft.types import Buffer
from pykraft.value import value

__all__ = [
    "API_VERSIONS",
    "ApiKey",
    "Body",
    "RequestHeader",
    "decode_request_body",
    "decode_request_header",
    "decode_response",
    "encode_request",
    "encode_response",
    "encode_unsupported_version",
]

_REQUEST_HEADER = struct.Struct(">hhih")
_RESPONSE_HEADER = struct.Struct(">i")
_COPIED_SIZE_BYTES_MAX = 4096
"""Up to this size, copying a frame to bytes and reading that is faster than reading through a memoryview."""


@value(frozen=True, slots=True)
class RequestHeader:
    """The header of every request; ``body_position`` is where the body begins in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_position: int


@cache
def _request_reader(api_key: int, version: int) -> Read:
    return compile_reader(APIS[api_key].request, version, keeps_unknown_tags=False)


@cache
def _response_reader(api_key: int, version: int) -> Read:
    return compile_reader(APIS[api_key].response, version, keeps_unknown_tags=False)


@cache
def _request_writer(api_key: int, version: int) -> Write:
    return compile_writer(APIS[api_key].request, version)


@cache
def _response_writer(api_key: int, version: int) -> Write:
    return compile_writer(APIS[api_key].response, version)


def decode_request_header(frame: Buffer) -> RequestHeader:
    """Read the header of a request, also for unknown APIs and versions.

    Errors: ProtocolError when the frame ends within it, or the client id is not UTF-8.
    """
    end = len(frame)
    what = "request header"
    if end < _REQUEST_HEADER.size:
        raise cut_off(what, 0, _REQUEST_HEADER.size, end)
    api_key, version, correlation_id, size_bytes = _REQUEST_HEADER.unpack_from(frame)
    position = _REQUEST_HEADER.size
    client_id = None
    if size_bytes != -1:
        client_id = read_text(frame, position, end, size_bytes, what)
        position += size_bytes
    api = APIS.get(api_key)
    if api is not None and version in api.request.flexible:
        position = _skip_tags(frame, position, end, what)
    return RequestHeader(api_key, version, correlation_id, client_id, position)


def decode_request_body(header: RequestHeader, frame: Buffer) -> Body:
    """Read the body of a request.

    Errors: ProtocolError with UNSUPPORTED_VERSION when we do not have the API or the version, with INVALID_REQUEST when
    the bytes are not such a request.
    """
    api = APIS.get(header.api_key)
    if api is None:
        raise ProtocolError(f"a request with the unknown key {header.api_key}", ErrorCode.UNSUPPORTED_VERSION)
    message = api.request
    if header.api_version not in message.versions:
        text = f"{message.name} v{header.api_version}: only versions {message.versions} are supported"
        raise ProtocolError(text, ErrorCode.UNSUPPORTED_VERSION)
    return _read(_request_reader(header.api_key, header.api_version), frame, header.body_position)


def encode_request(api_key: int, version: int, correlation_id: int, client_id: str | None, body: Body) -> list[Buffer]:
    """Write a request; large records are passed on without a copy.

    Errors: ProtocolError with UNSUPPORTED_VERSION when the version cannot carry a value in the body.
    """
    name = b"\xff\xff" if client_id is None else encode_string(client_id)
    head = struct.pack(">hhi", api_key, version, correlation_id) + name
    if version in APIS[api_key].request.flexible:
        head += b"\0"
    return _write(_request_writer(api_key, version), body, head)


def encode_response(api_key: int, version: int, correlation_id: int, body: Body) -> list[Buffer]:
    """Write a response; large records are passed on without a copy.

    Errors: ProtocolError with UNSUPPORTED_VERSION when the version cannot carry a value in the body.
    """
    head = _RESPONSE_HEADER.pack(correlation_id)
    if _response_header_has_tags(api_key, version):
        head += b"\0"
    return _write(_response_writer(api_key, version), body, head)


def decode_response(api_key: int, version: int, frame: Buffer) -> tuple[int, Body]:
    """Read the response to a request of this API and version: the correlation id and the body.

    Errors: ProtocolError when the bytes are not such a response.
    """
    end = len(frame)
    what = "response header"
    if end < _RESPONSE_HEADER.size:
        raise cut_off(what, 0, _RESPONSE_HEADER.size, end)
    (correlation_id,) = _RESPONSE_HEADER.unpack_from(frame)
    position = _RESPONSE_HEADER.size
    if _response_header_has_tags(api_key, version):
        position = _skip_tags(frame, position, end, what)
    try:
        return correlation_id, _read(_response_reader(api_key, version), frame, position)
    except ProtocolError:
        # A peer that lacks our version of ApiVersions answers with version 0 (KIP-511): read that below.
        if api_key != ApiKey.API_VERSIONS or version == 0:
            raise
    return correlation_id, _read(_response_reader(api_key, 0), frame, position)


def encode_unsupported_version(correlation_id: int, supported: Iterable[tuple[int, Versions]]) -> list[Buffer]:
    """The answer to an ApiVersions request whose version we lack: version 0, with what we support (KIP-511)."""
    api_keys = [
        {"api_key": key, "min_version": versions.min, "max_version": versions.max} for key, versions in supported
    ]
    body = {"error_code": ErrorCode.UNSUPPORTED_VERSION, "api_keys": api_keys}
    return encode_response(ApiKey.API_VERSIONS, 0, correlation_id, body)


def _response_header_has_tags(api_key: int, version: int) -> bool:
    return version in APIS[api_key].response.flexible and api_key != ApiKey.API_VERSIONS


def _skip_tags(frame: Buffer, position: int, end: int, what: str) -> int:
    if position < end and not frame[position]:
        return position + 1
    return skip_tags(frame, position, end, what)


def _read(read: Read, frame: Buffer, position: int) -> Body:
    if not isinstance(frame, bytes) and len(frame) <= _COPIED_SIZE_BYTES_MAX:
        frame = bytes(frame)
    end = len(frame)
    body, position = read(frame, position, end)
    if position != end:
        raise ProtocolError(f"{end - position} bytes are left after the message that ends at position {position}")
    return body


def _write(write: Write, body: Body, head: bytes) -> list[Buffer]:
    try:
        return write(body, head)
    except (struct.error, TypeError, AttributeError, UnicodeError) as error:
        raise AssertionError(f"a value does not fit its field: {error} in {body!r:.500}") from error

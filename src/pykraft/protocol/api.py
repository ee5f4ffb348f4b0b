"""Requests and responses as frames: size, header, and the reader or writer for each body; a stream cut into frames.

    size int32 (of what follows), then that many bytes: a request or a response with its header
    request header v1    api key int16, api version int16, correlation id int32, client id string? (int16 length)
    request header v2    the same, the client id too, then tagged fields; for flexible versions
    response header v0   correlation id int32
    response header v1   the same, then tagged fields; for flexible versions, but never for ApiVersions

Invariant: a decoded response uses up its frame; left-over bytes are a `ProtocolError`. Those of a request are ignored,
as Kafka does: librdkafka's Metadata request for all topics has three. But for `frame` and `FrameReader`, frames here
exclude the 4-byte size. Tagged fields of headers are skipped: none are defined yet.

A request with an unknown key or version still gets a header. If it is ApiVersions, `encode_unsupported_version` answers
it; for any other there is no answer that the peer could read.

`FrameReader` holds at most one unfinished frame, and the piece of the stream that it takes frames from. Invariant: it
holds no more of an unfinished frame than the announced size, which it checks against the limit as soon as it knows it.
Memory grows with the bytes that arrived, never with the announced size. Frames are taken one by one, since a piece may
contain thousands. A frame that is too large may be cut: only its beginning is kept, and returned when all of it has
come, so that a request can be refused and the connection goes on. Each byte is copied at most once: a large frame that
lies whole in one piece is a view of that piece. The rest of a large frame may be received where it belongs
(`FrameReader.room`), without a copy.

Source: Kafka protocol guide §Protocol; KIP-482; KIP-511; Kafka's NetworkReceive.
"""

import struct
from collections.abc import Iterable, Sequence
from functools import cache

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.cut_frame import CutFrame
from pykraft.protocol.messages import API_VERSIONS, APIS, ApiKey
from pykraft.protocol.primitives import cut_off, encode_string, read_text, skip_tags
from pykraft.protocol.reader import Read, compile_reader
from pykraft.protocol.schema import Body, Versions
from pykraft.protocol.writer import Write, compile_writer
from pykraft.types import Buffer
from pykraft.value import value

SIZE_PREFIX_SIZE_BYTES = 4
FRAME_SIZE_BYTES_MAX = 2**31 - 1
"""Largest size that the prefix can express; the limit of a reader is far below."""
VIEW_SIZE_BYTES_MIN = 4096
"""From this size on a frame is a view of its piece; a smaller one is copied, so that the piece can be freed."""
ROOM_SIZE_BYTES_MIN = 64 * 1024
"""If less than this is missing of a frame, the next piece may as well hold the rest and more."""

CUT_SIZE_BYTES = 4096
"""What is kept of a frame that is too large: enough to say what it asks for."""

_SIZE = struct.Struct(">i")
_FOREIGN_STARTS = (
    (b"\x16\x03", "TLS"),
    (b"GET ", "HTTP"),
    (b"POST", "HTTP"),
    (b"HEAD", "HTTP"),
    (b"HTTP", "HTTP"),
    (b"SSH-", "SSH"),
)


class FrameReader:
    """Collects the frames of one connection; after an error, close the connection."""

    __slots__ = (
        "_cut",
        "_cut_size_bytes_max",
        "_data",
        "_dropping_bytes",
        "_filled_bytes",
        "_former_bytes",
        "_held",
        "_need_bytes",
        "_position",
        "_room",
        "size_bytes_max",
    )

    def __init__(self, size_bytes_max: int, *, cut_size_bytes_max: int = 0) -> None:
        """Frames above ``size_bytes_max`` are refused, or cut if ``cut_size_bytes_max`` is not below their size."""
        assert 0 < size_bytes_max <= FRAME_SIZE_BYTES_MAX
        assert not cut_size_bytes_max or size_bytes_max >= CUT_SIZE_BYTES
        self.size_bytes_max = size_bytes_max
        """Largest accepted frame; may be raised once the peer is known."""
        self._cut_size_bytes_max = cut_size_bytes_max
        self._dropping_bytes = 0  # what is still to come, and to be thrown away, of a frame that is cut
        self._cut: CutFrame | None = None  # its beginning, once that has come
        self._data = b""  # the newest piece of the stream, unread from `_position` on
        self._position = 0
        self._held = bytearray()  # bytes of a frame, or of its size, that began in an earlier piece; then room for more
        self._filled_bytes = 0  # how much of `_held` has arrived
        self._former_bytes = 0  # size of the last frame that came in several pieces
        self._room: memoryview | None = None
        self._need_bytes = 0  # size of the frame in `_held`; 0 while it is unknown

    @property
    def held_size_bytes(self) -> int:
        """Bytes held: of an unfinished frame, and of frames not taken yet."""
        return self._filled_bytes + len(self._data) - self._position

    @property
    def need_size_bytes(self) -> int:
        """Full size of the unfinished frame; 0 while it is unknown, or there is none."""
        return self._need_bytes

    @property
    def untaken(self) -> bytes:
        """What came after the frame that was taken last, for another reader."""
        return self._data[self._position :]

    def feed(self, data: bytes) -> list[Buffer]:
        """Add the next piece of the stream; returns the frames that are complete now, without their sizes.

        Errors: see `take`.
        """
        self.put(data)
        frames: list[Buffer] = []
        while (found := self.take()) is not None:
            frames.append(found)
        return frames

    def put(self, data: bytes) -> None:
        """Add the next piece of the stream; it must be immutable, since frames may be views of it."""
        self._release_room()
        left = self._data[self._position :]
        self._data = left + data if left else data
        self._position = 0

    def room(self) -> memoryview | None:
        """Where the next bytes of the stream belong if they are the rest of a large frame; None if `put` takes them.

        It is at most as large as the frame before, or as what has arrived of this one. It is valid until the next call
        but for `filled`.
        """
        self._release_room()
        missing_bytes = self._need_bytes - self._filled_bytes
        if missing_bytes < ROOM_SIZE_BYTES_MIN or len(self._data) > self._position:
            return None
        if self._filled_bytes == len(self._held):
            # Not the announced size: memory is only for a peer that did send as much before.
            room_bytes = max(self._filled_bytes, self._former_bytes, ROOM_SIZE_BYTES_MIN)
            held = bytearray(self._filled_bytes + min(missing_bytes, room_bytes))
            held[: self._filled_bytes] = self._held
            self._held = held
        self._room = memoryview(self._held)[self._filled_bytes :]
        return self._room

    def filled(self, size_bytes: int) -> None:
        """The next piece of the stream was received in the `room`."""
        self._filled_bytes += size_bytes

    def _release_room(self) -> None:
        # Not in `filled`: uvloop uses the view until that call has returned. And a loop may keep the view for longer,
        # but as long as it is valid the buffer cannot grow.
        if self._room is not None:
            self._room.release()
            self._room = None

    def take(self) -> Buffer | None:
        """The next frame, without its size; None until more arrives. Frames that are not taken cost only their bytes.

        Errors: ProtocolError when a size is not positive or above ``size_bytes_max``.
        """
        if self._cut is None:
            found = self._take()
            if found is None or not self._dropping_bytes:
                return found
            self._cut = CutFrame(found)
        size_bytes = min(self._dropping_bytes, len(self._data) - self._position)
        self._position += size_bytes
        self._dropping_bytes -= size_bytes
        if self._dropping_bytes:
            return None
        cut, self._cut = self._cut, None
        return cut

    def _take(self) -> Buffer | None:
        data, start = self._data, self._position + SIZE_PREFIX_SIZE_BYTES
        if self._filled_bytes or self._need_bytes:
            return self._resume(data)
        if start > len(data):
            if self._position < len(data):
                self._hold(data, self._position)
            else:
                self._data, self._position = b"", 0
            return None
        size_bytes = self._check_size(data, self._position)
        stop = start + size_bytes
        if stop > len(data):
            self._need_bytes = size_bytes
            self._hold(data, start)
            return None
        self._position = stop
        return data[start:stop] if size_bytes < VIEW_SIZE_BYTES_MIN else memoryview(data)[start:stop]

    def _hold(self, data: bytes, position: int) -> None:
        """Keep the bytes of an unfinished frame, and let its piece be freed."""
        self._add(memoryview(data)[position:])
        self._data, self._position = b"", 0

    def _add(self, piece: memoryview) -> None:
        end = self._filled_bytes + len(piece)
        self._held[self._filled_bytes : end] = piece
        self._filled_bytes = end

    def _resume(self, data: bytes) -> Buffer | None:
        position = self._position
        if not self._need_bytes:
            start = position + SIZE_PREFIX_SIZE_BYTES - self._filled_bytes
            if start > len(data):
                self._hold(data, position)
                return None
            self._need_bytes = self._check_size(self._held + data[position:start], 0)
            self._held, self._filled_bytes = bytearray(), 0
            position = start
        stop = position + self._need_bytes - self._filled_bytes
        if stop > len(data):
            self._hold(data, position)
            return None
        self._add(memoryview(data)[position:stop])
        self._position = stop
        small = self._need_bytes < VIEW_SIZE_BYTES_MIN
        found: Buffer = bytes(self._held) if small else memoryview(self._held).toreadonly()
        self._held, self._filled_bytes, self._former_bytes, self._need_bytes = bytearray(), 0, self._need_bytes, 0
        return found

    def _check_size(self, data: Buffer, position: int) -> int:
        (size_bytes,) = _SIZE.unpack_from(data, position)
        # Check the announced size before any byte of the frame is kept for it.
        if 0 < size_bytes <= self.size_bytes_max:
            return int(size_bytes)
        if self.size_bytes_max < size_bytes <= self._cut_size_bytes_max:
            self._dropping_bytes = size_bytes - CUT_SIZE_BYTES
            return CUT_SIZE_BYTES
        start = bytes(data[position : position + SIZE_PREFIX_SIZE_BYTES])
        hint = next(
            (f"; the peer seems to speak {name}" for text, name in _FOREIGN_STARTS if start.startswith(text)), ""
        )
        raise ProtocolError(f"a frame of {size_bytes} bytes: allowed are 1 to {self.size_bytes_max}{hint}")


def frame(parts: Sequence[Buffer]) -> list[Buffer]:
    """Put the size in front of a message that consists of these buffers."""
    size = _SIZE.pack(sum(map(len, parts)))
    return [size + bytes(parts[0]), *parts[1:]]


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
    return _read(_request_reader(header.api_key, header.api_version), frame, header.body_position, is_whole=False)


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


def _read(read: Read, frame: Buffer, position: int, *, is_whole: bool = True) -> Body:
    if not isinstance(frame, bytes) and len(frame) <= _COPIED_SIZE_BYTES_MAX:
        frame = bytes(frame)
    end = len(frame)
    body, position = read(frame, position, end)
    if is_whole and position != end:
        raise ProtocolError(f"{end - position} bytes are left after the message that ends at position {position}")
    return body


def _write(write: Write, body: Body, head: bytes) -> list[Buffer]:
    try:
        return write(body, head)
    except (struct.error, TypeError, AttributeError, UnicodeError) as error:
        raise AssertionError(f"a value does not fit its field: {error} in {body!r:.500}") from error

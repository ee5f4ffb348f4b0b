"""Fetch requests and answers that repeat on a connection: bytes with gaps for the few numbers that change.

A quorum's replicas exchange Fetches all the time, and those of one connection differ only in the correlation id, the
fetch offset and the high watermark, and answers in their records. A template has all other bytes as they were in an
earlier frame, so writing is one call and reading is a comparison.

Invariants: what a template writes is byte for byte what `pykraft.rpc.codec` writes. A template reads only a frame that
has its bytes everywhere else, and gets what the codec gets; any other frame is left to the codec. Templates come from
the codec: it writes a message with marks in place of the numbers, and the marks tell where the gaps are. A peer's frame
gives a template only if the codec would have written it in the same way. A peer that sends other frames costs one
attempt for each doubling of their number.

Source: Kafka has no such thing; see ADR 071.
"""

from collections.abc import Sequence
from dataclasses import replace
from struct import Struct
from typing import Final, TypeAlias

from pykraft.core.messages import NONE, FetchRequest, FetchResponse, Response
from pykraft.protocol.api import RequestHeader, encode_request, encode_response
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.messages.fetch import HIGH_WATERMARK_NOT_TOLD
from pykraft.protocol.primitives import encode_compact_size
from pykraft.rpc import fetch
from pykraft.rpc.context import RpcContext
from pykraft.types import Buffer, Offset

TOLD_VERSION_MIN: Final = 18
"""From this version on a request tells the high watermark (KIP-1166); older ones have no templates."""
COPIED_SIZE_BYTES_MAX: Final = 512
"""More bytes of records are passed on without a copy."""
FRAME_SIZE_BYTES_MAX: Final = 1024
"""Larger frames are left to the codec."""
_ID_MARK: Final = 0x5AC3E1D7
_OFFSET_MARK: Final = 0x6B5D4F3927190B0D
_WATERMARK_MARK: Final = 0x7C6E5A4B38291A0C
_RECORDS_MARK: Final = bytes(range(0xE0, 0xF0))
_RECORDS_AND_SIZE_MARK: Final = encode_compact_size(len(_RECORDS_MARK)) + _RECORDS_MARK
_ONE_BYTE_SIZE_MAX: Final = 0x7F

Mark: TypeAlias = tuple[str, int]
"""The `struct` code of a number, and the mark that stands for it."""
_ID: Final[Mark] = ("i", _ID_MARK)


class Template:
    """Bytes with gaps for big-endian numbers."""

    __slots__ = ("_layout", "_pieces", "size_bytes")

    def __init__(self, marked: bytes, marks: Sequence[Mark]) -> None:
        """``marked`` has each mark once, in this order, wherever its number belongs."""
        pieces, codes = [], ""
        for code, mark in marks:
            before, found, marked = marked.partition(Struct(f">{code}").pack(mark))
            assert found, "each mark is in the bytes"
            pieces.append(before)
            codes += f"{len(before)}s{code}"
        self._pieces = (*pieces, marked)
        self._layout = Struct(f">{codes}{len(marked)}s")
        self.size_bytes = self._layout.size

    def fill(self, *numbers: int) -> bytes:
        """The bytes with two or three numbers in the gaps."""
        if len(numbers) == 2:
            (one, two), (first, second, rest) = numbers, self._pieces
            return self._layout.pack(first, one, second, two, rest)
        (one, two, three), (first, second, third, rest) = numbers, self._pieces
        return self._layout.pack(first, one, second, two, third, three, rest)

    def numbers_in(self, data: bytes) -> tuple[int, ...] | None:
        """The numbers in the gaps; None if any other of the first ``size_bytes`` differs from the template."""
        found = self._layout.unpack_from(data)
        return found[1::2] if found[::2] == self._pieces else None


class _Attempts:
    """Says after which misses a template is worth making: the second, the fourth, the eighth and so on."""

    __slots__ = ("_misses",)

    def __init__(self) -> None:
        self._misses = 0

    def missed(self) -> bool:
        """Count a miss; True when a template should be made."""
        self._misses += 1
        # A peer whose frames have no template, or always other ones, costs little more than without templates.
        return self._misses > 1 and self._misses & (self._misses - 1) == 0


class RequestWriter:
    """Writes the Fetch requests of one connection."""

    def __init__(self, client_id: str) -> None:
        self._client_id = client_id
        self._constants: tuple[object, ...] = ()
        self._template: Template | None = None

    def write(self, message: FetchRequest, version: int, correlation_id: int, context: RpcContext) -> list[Buffer]:
        """The same as `pykraft.rpc.codec.encode_request`. Errors: as there."""
        watermark = message.high_watermark
        if version < TOLD_VERSION_MIN or watermark is None or watermark == HIGH_WATERMARK_NOT_TOLD:
            return self._encode(message, version, correlation_id, context)
        constants = (
            version,
            message.replica,
            message.epoch,
            message.last_fetched_epoch,
            message.wait_ms_max,
            message.size_bytes_max,
            message.is_committed_only,
        )
        if constants != self._constants:
            # Perhaps a single one, such as a probe: a template is made when the same comes again.
            self._constants, self._template = constants, None
            return self._encode(message, version, correlation_id, context)
        if self._template is None:
            self._template = _request_template(message, version, self._client_id, context)
        return [self._template.fill(correlation_id, message.fetch_offset, watermark)]

    def _encode(self, message: FetchRequest, version: int, correlation_id: int, context: RpcContext) -> list[Buffer]:
        body = fetch.request_to_wire(message, version, context)
        return encode_request(ApiKey.FETCH, version, correlation_id, self._client_id, body)


class RequestReader:
    """Reads the Fetch requests of one connection."""

    def __init__(self) -> None:
        self._template: Template | None = None
        self._known: tuple[RequestHeader, FetchRequest] | None = None
        self._attempts = _Attempts()

    def read(self, data: Buffer) -> tuple[RequestHeader, FetchRequest] | None:
        """The header and the message; None for a frame that the codec must read."""
        template, known = self._template, self._known
        if template is None or known is None or len(data) != template.size_bytes or not isinstance(data, bytes):
            return None
        numbers = template.numbers_in(data)
        if numbers is None or numbers[2] == HIGH_WATERMARK_NOT_TOLD:
            return None
        (header, message), (correlation_id, fetch_offset, high_watermark) = known, numbers
        return (
            RequestHeader(header.api_key, header.api_version, correlation_id, header.client_id, header.body_position),
            FetchRequest(
                replica=message.replica,
                epoch=message.epoch,
                fetch_offset=Offset(fetch_offset),
                last_fetched_epoch=message.last_fetched_epoch,
                wait_ms_max=message.wait_ms_max,
                size_bytes_max=message.size_bytes_max,
                high_watermark=high_watermark,
                is_committed_only=message.is_committed_only,
            ),
        )

    def missed(self, data: Buffer, header: RequestHeader, message: FetchRequest, context: RpcContext) -> None:
        """The codec has read this frame: perhaps the next ones are like it."""
        version = header.api_version
        if version < TOLD_VERSION_MIN or message.high_watermark is None or len(data) > FRAME_SIZE_BYTES_MAX:
            return
        if not self._attempts.missed() or header.client_id is None:
            return
        template = _request_template(message, version, header.client_id, context)
        # A sender may set fields of which the core does not know, or encode them otherwise.
        if template.fill(header.correlation_id, message.fetch_offset, message.high_watermark) == data:
            self._template, self._known = template, (header, message)


class AnswerWriter:
    """Writes the answers to the Fetch requests of one connection."""

    def __init__(self) -> None:
        self._constants: tuple[object, ...] = ()
        self._ends: tuple[Template, bytes] | None = None

    def write(
        self, header: RequestHeader, message: Response, records: Sequence[Buffer], context: RpcContext
    ) -> list[Buffer] | None:
        """The same as `pykraft.rpc.codec.encode_answer`; None for an answer that the codec must write."""
        if not isinstance(message, FetchResponse) or message.error != NONE or header.api_version < TOLD_VERSION_MIN:
            return None
        if message.diverging is not None or message.snapshot_id is not None:
            return None
        constants = (header.api_version, message.epoch, message.leader_id, message.log_start_offset, message.listeners)
        if constants != self._constants:
            self._constants, self._ends = constants, None
            return None
        if self._ends is None:
            self._ends = _answer_template(message, header.api_version, context)
        head, tail = self._ends
        watermark = -1 if message.high_watermark is None else message.high_watermark
        size_bytes = sum(map(len, records))
        before = head.fill(header.correlation_id, watermark) + encode_compact_size(size_bytes)
        # A copy of little costs less than a longer list of parts.
        return [before, *records, tail] if size_bytes > COPIED_SIZE_BYTES_MAX else [b"".join((before, *records, tail))]


class AnswerReader:
    """Reads the answers to the Fetch requests of one connection."""

    def __init__(self) -> None:
        self._ends: tuple[Template, bytes] | None = None
        self._known: FetchResponse | None = None
        self._attempts = _Attempts()

    def read(self, data: Buffer) -> tuple[int, FetchResponse, Buffer] | None:
        """The correlation id, the message and its records; None for a frame that the codec must read."""
        if self._ends is None or self._known is None or not isinstance(data, bytes):
            return None
        (head, tail), known = self._ends, self._known
        if len(data) <= head.size_bytes or (numbers := head.numbers_in(data)) is None:
            return None
        start, size = head.size_bytes + 1, data[head.size_bytes]
        if size > _ONE_BYTE_SIZE_MAX:
            # Sizes of two bytes are those of 127 and more bytes of records; longer ones are left to the codec.
            if len(data) <= start or not 0 < data[start] <= _ONE_BYTE_SIZE_MAX:
                return None
            size = (size & _ONE_BYTE_SIZE_MAX) | data[start] << 7
            start += 1
        end = start + size - 1  # a compact size is one more than the size; 0 stands for null
        if size == 0 or data[end:] != tail or end > len(data):
            return None
        correlation_id, watermark = numbers
        message = FetchResponse(
            error=NONE,
            epoch=known.epoch,
            leader_id=known.leader_id,
            high_watermark=Offset(watermark) if watermark >= 0 else None,
            log_start_offset=known.log_start_offset,
            listeners=known.listeners,
        )
        return correlation_id, message, memoryview(data)[start:end]

    def missed(self, data: Buffer, version: int, answer: tuple[int, Response, Buffer], context: RpcContext) -> None:
        """The codec has read this frame: perhaps the next ones are like it."""
        correlation_id, message, records = answer
        if not isinstance(message, FetchResponse) or message.error != NONE or version < TOLD_VERSION_MIN:
            return
        if message.diverging is not None or message.snapshot_id is not None or len(data) > FRAME_SIZE_BYTES_MAX:
            return
        if not self._attempts.missed():
            return
        head, tail = ends = _answer_template(message, version, context)
        watermark = -1 if message.high_watermark is None else message.high_watermark
        written = b"".join((head.fill(correlation_id, watermark), encode_compact_size(len(records)), records, tail))
        # As for requests.
        if written == data:
            self._ends, self._known = ends, message


def _request_template(message: FetchRequest, version: int, client_id: str, context: RpcContext) -> Template:
    marked = replace(message, fetch_offset=Offset(_OFFSET_MARK), high_watermark=_WATERMARK_MARK)
    body = fetch.request_to_wire(marked, version, context)
    data = b"".join(encode_request(ApiKey.FETCH, version, _ID_MARK, client_id, body))
    return Template(data, (_ID, ("q", _OFFSET_MARK), ("q", _WATERMARK_MARK)))


def _answer_template(message: FetchResponse, version: int, context: RpcContext) -> tuple[Template, bytes]:
    """The bytes before the records' size, and those after the records."""
    body = fetch.response_to_wire(replace(message, high_watermark=Offset(_WATERMARK_MARK)), version, context)
    fetch.put_records(body, _RECORDS_MARK)
    data = b"".join(encode_response(ApiKey.FETCH, version, _ID_MARK, body))
    head, found, tail = data.partition(_RECORDS_AND_SIZE_MARK)
    assert found, "the records are in the bytes"
    return Template(head, (_ID, ("q", _WATERMARK_MARK))), tail

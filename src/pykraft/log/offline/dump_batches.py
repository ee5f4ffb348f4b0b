"""The batches of a log or snapshot file as facts to print; damaged ones too, as far as they can be read.

This module decides how far a dump continues after damage. It shows a batch with a wrong CRC (``isvalid`` false) and
continues where the batch's length says, as Kafka does. It stops at a header that is cut or has no usable length, and at
a batch that is longer than the file, because nobody knows where the next batch would begin. Each problem has a
position, what was expected and what was found.

Memory is bounded by one chunk or one batch, whichever is larger.

Source: Kafka's ``DumpLogSegments``: field names, and what it prints for each control record.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pykraft.errors import ProtocolError
from pykraft.log.fs import File
from pykraft.protocol.batch import HEADER_SIZE_BYTES, BatchHeader, check_header, crc_of, unpack_header
from pykraft.protocol.compression import Compression
from pykraft.protocol.control import TABLES, ControlType, control_type, read_control_body
from pykraft.protocol.json_form import body_json
from pykraft.protocol.records import Record, decode_records
from pykraft.types import Offset

CHUNK_SIZE_BYTES: Final = 1024 * 1024
BATCH_SIZE_BYTES_MAX: Final = 128 * 1024 * 1024
"""A larger batch is not read into memory; Kafka's default for the largest request is 100 MiB."""
_CODECS: Final = {codec.value: codec.name.lower() for codec in Compression}


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact from a file; ``fields`` have the names and the order in which they are printed.

    Kinds: ``batch``, ``entry`` (of an index, checkpoint or metadata file), ``problem`` (position, expected, found),
    ``tail`` (bytes after the last readable batch) and ``heading`` (one ``text``, printed in plain text only).
    """

    kind: str
    fields: dict[str, Any]


def problem(position: int, expected: str, found: str) -> Fact:
    """A fact about wrong bytes."""
    return Fact("problem", {"position": position, "expected": expected, "found": found})


def try_header(data: bytes) -> BatchHeader | str:
    """The header in these bytes, or a text that says what is there instead."""
    if len(data) < HEADER_SIZE_BYTES:
        return f"{len(data)} bytes"
    try:
        return unpack_header(data)
    except ProtocolError as error:
        return str(error).replace("the batch at byte 0", "one that")


def batch_facts(file: File, expected_offset: Offset, *, with_records: bool) -> Iterator[Fact]:
    """The batches of a file whose first batch should begin at this offset.

    With ``with_records`` each batch has its ``records``, as far as they can be decoded.
    """
    window = _Window(file)
    end = file.size()
    position = 0
    while position < end:
        found = _header_at(window, position, end)
        if isinstance(found, Fact):
            yield found
            yield Fact("tail", {"position": position, "invalidBytes": end - position})
            return
        batch = window.read(position, found.size_bytes)
        yield from _whole_batch(position, found, batch, with_records=with_records)
        if found.base_offset != expected_offset:
            yield problem(position, f"offset {expected_offset}", f"offset {found.base_offset}")
        expected_offset = found.end_offset
        position += found.size_bytes


class _Window:
    """The part of a file that is in memory."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._data = b""
        self._position = 0

    def read(self, position: int, size_bytes: int) -> bytes:
        """The bytes at this position; fewer only where the file ends."""
        at = position - self._position
        if at + size_bytes > len(self._data):
            self._data = self._file.pread(max(size_bytes, CHUNK_SIZE_BYTES), position)
            self._position, at = position, 0
        return self._data[at : at + size_bytes]


def _header_at(window: _Window, position: int, end: int) -> BatchHeader | Fact:
    """The header of a whole batch, or the problem that ends the dump."""
    header = try_header(window.read(position, HEADER_SIZE_BYTES))
    if isinstance(header, str):
        return problem(position, f"a batch header of {HEADER_SIZE_BYTES} bytes", header)
    if header.size_bytes > BATCH_SIZE_BYTES_MAX:
        return problem(position, f"a batch of at most {BATCH_SIZE_BYTES_MAX} bytes", f"one of {header.size_bytes}")
    if header.size_bytes > end - position:
        return problem(position, f"a batch of {header.size_bytes} bytes", f"{end - position} bytes")
    return header


def _whole_batch(position: int, header: BatchHeader, batch: bytes, *, with_records: bool) -> Iterator[Fact]:
    if len(batch) < header.size_bytes:
        yield problem(position, f"a batch of {header.size_bytes} bytes", f"{len(batch)} bytes: the file became shorter")
        return
    crc = crc_of(batch, 0, header)
    fields = _batch_fields(position, header, is_valid=crc == header.crc)
    problems = []
    if crc != header.crc:
        problems.append(problem(position, f"CRC {header.crc:08x} of {header.size_bytes} bytes", f"CRC {crc:08x}"))
    try:
        check_header(header)
        if with_records:
            records = decode_records(batch, verify_crc=False)
            fields["records"] = [_record_fields(record, is_control=header.is_control) for record in records]
    except ProtocolError as error:
        problems.append(problem(position, "a batch that can be read", str(error)))
    yield Fact("batch", fields)
    yield from problems


def _batch_fields(position: int, header: BatchHeader, *, is_valid: bool) -> dict[str, Any]:
    codec = header.attributes & 0x07
    return {
        "position": position,
        "baseOffset": header.base_offset,
        "lastOffset": header.last_offset,
        "count": header.records_count,
        "baseSequence": header.base_sequence,
        "lastSequence": _sequence(header.base_sequence, header.last_offset_delta),
        "producerId": header.producer_id,
        "producerEpoch": header.producer_epoch,
        "partitionLeaderEpoch": header.epoch,
        "isTransactional": header.is_transactional,
        "isControl": header.is_control,
        "deleteHorizonMs": header.delete_horizon_ms,
        "timestampType": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "baseTimestamp": header.base_timestamp,
        "maxTimestamp": header.max_timestamp,
        "size": header.size_bytes,
        "magic": header.magic,
        "compresscodec": _CODECS.get(codec) or f"unknown({codec})",
        "crc": header.crc,
        "isvalid": is_valid,
    }


def _sequence(base_sequence: int, delta: int) -> int:
    """The last sequence number; like Kafka's it continues with 0 after 2**31 - 1, and -1 means none."""
    return -1 if base_sequence < 0 else (base_sequence + delta) % 2**31


def _record_fields(record: Record, *, is_control: bool) -> dict[str, Any]:
    """``key`` and ``value`` are bytes or None; ``control`` is [name, body] of a control record, else absent."""
    fields: dict[str, Any] = {
        "offset": record.offset,
        "timestamp": record.timestamp_ms,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "sequence": record.sequence,
        "headerKeys": [name for name, _ in record.headers],
    }
    if is_control:
        fields["control"] = control_json(record)
    else:
        fields |= {"key": record.key, "value": record.value}
    return fields


def control_json(record: Record) -> list[Any]:
    """The record of a control batch as [name, body], both in the form that Kafka's tool prints.

    Errors: ProtocolError when the body does not match its type.
    """
    number = control_type(record.key)
    if number not in TABLES:
        return ["controlType", ControlType(number).name if number in set(ControlType) else f"UNKNOWN({number})"]
    kind, body = read_control_body(record.key, record.value)
    return [TABLES[kind].name, body_json(TABLES[kind].body, body, body["version"])]

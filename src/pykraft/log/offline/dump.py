"""The contents of the files in a log directory as facts to print; a file's name decides its kind.

| name | facts |
|---|---|
| ``<offset>.log`` | batches |
| ``<offset>-<epoch>.checkpoint``, ``bootstrap.checkpoint`` | batches of a snapshot |
| ``<offset>.index``, ``<offset>.timeindex`` | an entry each; offsets are compared with the ``.log`` beside the file |
| ``<offset>.snapshot`` | version, CRC and number of producers: 10 bytes and no producers in KRaft |
| ``leader-epoch-checkpoint`` | an entry for each epoch |
| ``quorum-state``, ``meta.metadata``, ``meta.properties`` | one entry |
| ``quorum-state.check``, ``recovery-point``, ``quarantine``, ``replica-proof`` | an entry for each slot, older first |

A name may also end in ``.deleted``, ``.cleaned``, ``.swap``, ``.part`` or ``.tmp``. Nothing is written, locked or
synced, so the files of a running node can be read.

A batch with a wrong CRC is shown (``isvalid`` false), and the dump continues where its length says, as Kafka does. It
stops at a header that is cut or has no usable length, and at a batch that is longer than the file, because nobody knows
where the next batch would begin. Memory is bounded by one chunk or one batch, whichever is larger.

Source: Kafka's ``DumpLogSegments``: field names, and what it prints for each control record.
"""

import re
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from crc32c import crc32c

from pykraft.errors import CorruptionError, ProtocolError, UsageError
from pykraft.log.fs import File, Fs
from pykraft.log.index import OFFSET_ENTRY, TIME_ENTRY, index_entries
from pykraft.log.paths import LOG, OFFSET_INDEX, TIME_INDEX, parse_segment_file, segment_file
from pykraft.log.small_files import epoch_checkpoint, meta, proof_file, quarantine_file, quorum_state, recovery_point
from pykraft.log.small_files.slots import parse_slots
from pykraft.protocol.batch import HEADER_SIZE_BYTES, BatchHeader, check_header, crc_of, unpack_header
from pykraft.protocol.compression import Compression
from pykraft.protocol.control import TABLES, ControlType, control_type, read_control_body
from pykraft.protocol.records import Record, decode_records
from pykraft.protocol.schema import body_json
from pykraft.text.words import counted
from pykraft.types import Offset, uuid_text

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


_ENDINGS: Final = re.compile(r"\.(deleted|cleaned|swap|part|tmp)$")
_CHECKPOINT: Final = re.compile(r"([0-9]{20})-([0-9]{10})(-.+)?\.checkpoint")
_PRODUCER_SNAPSHOT: Final = re.compile(r"[0-9]{20}\.snapshot")
_PRODUCER_HEAD: Final = struct.Struct(">hIi")
_PRODUCER_CRC_END: Final = 6
_PRODUCER_SIZE_BYTES: Final = 46


def dump_file(fs: Fs, path: Path, *, with_records: bool) -> Iterator[Fact]:
    """The facts of one file, in file order; damage is a fact, too.

    Errors: StorageError when the file cannot be read; UsageError when its name is not in the table above.
    """
    fixed_name = _ENDINGS.sub("", path.name)
    facts = _FIXED_NAMES.get(fixed_name)
    if facts is not None:
        try:
            # The epoch checkpoint may be larger than `Fs.read` allows.
            is_epochs = fixed_name == epoch_checkpoint.FILE_NAME
            yield from facts(path, epoch_checkpoint.read_content(fs, path) if is_epochs else fs.read(path))
        except CorruptionError as error:
            yield problem(error.position, error.expected, error.found)
        return
    name = _ENDINGS.sub("", path.name)
    segment = parse_segment_file(name)
    checkpoint = _CHECKPOINT.fullmatch(name)
    if segment is not None and segment[1] == LOG:
        yield Fact("heading", {"text": f"Log starting offset: {segment[0]}"})
        yield from _batches(fs, path, segment[0], with_records=with_records)
    elif segment is not None:
        yield from _index(fs, path, *segment)
    elif checkpoint is not None or name == "bootstrap.checkpoint":
        yield Fact("heading", {"text": _snapshot_heading(checkpoint)})
        yield from _batches(fs, path, Offset(0), with_records=with_records)
    elif _PRODUCER_SNAPSHOT.fullmatch(name):
        yield from _producer_snapshot(fs.read(path))
    else:
        fs.open(path).close()  # a file that is missing or unreadable is reported as such
        known = ", ".join((".log, .index, .timeindex, .checkpoint, .snapshot", *sorted(_FIXED_NAMES)))
        raise UsageError(f"{path}: dump does not know this kind of file; it knows {known}")


def _snapshot_heading(name: re.Match[str] | None) -> str:
    if name is None:
        return "KRaft bootstrap snapshot"
    return f"Snapshot end offset: {int(name[1])}, epoch: {int(name[2])}"


def _batches(fs: Fs, path: Path, start_offset: Offset, *, with_records: bool) -> Iterator[Fact]:
    with closing(fs.open(path)) as file:
        yield from batch_facts(file, start_offset, with_records=with_records)


def _index(fs: Fs, path: Path, base_offset: Offset, suffix: str) -> Iterator[Fact]:
    """The entries, each above the previous one; those of an offset index are looked up in the log beside it."""
    log_path = path.with_name(segment_file(base_offset, LOG))
    layout = TIME_ENTRY if suffix == TIME_INDEX else OFFSET_ENTRY
    with ExitStack() as stack:
        file = stack.enter_context(closing(fs.open(path)))
        is_current = path.name.endswith(OFFSET_INDEX) and fs.exists(log_path)
        log = stack.enter_context(closing(fs.open(log_path))) if is_current else None
        whole, odd = divmod(file.size(), layout.size)
        last: tuple[int, int] | None = None
        for at, entry in index_entries(file, layout):
            whole -= 1
            if layout is TIME_ENTRY:
                yield Fact("entry", {"timestamp": entry[0], "offset": base_offset + entry[1]})
            else:
                yield Fact("entry", {"offset": base_offset + entry[0], "position": entry[1]})
            if log is not None:
                yield from _mismatch(log, at, base_offset + entry[0], entry[1])
            if last is not None and not (entry[0] > last[0] and entry[1] >= last[1]):
                yield problem(at, f"an entry above {last}", f"{entry}")
            last = entry
        if odd and not whole:
            yield problem(file.size() - odd, f"an entry of {layout.size} bytes", f"{odd} bytes")


def _mismatch(log: File, at: int, offset: int, position: int) -> Iterator[Fact]:
    """A problem, unless the log has a batch at this position that ends with this offset."""
    expected = f"a batch with last offset {offset} at position {position} of the log"
    header = try_header(log.pread(HEADER_SIZE_BYTES, position)) if position >= 0 else "nothing there"
    if isinstance(header, str):
        yield problem(at, expected, header)
    elif header.last_offset != offset:
        yield problem(at, expected, f"one with last offset {header.last_offset}")


def _producer_snapshot(content: bytes) -> Iterator[Fact]:
    if len(content) < _PRODUCER_HEAD.size:
        yield problem(0, f"a producer snapshot of at least {_PRODUCER_HEAD.size} bytes", f"{len(content)} bytes")
        return
    version, crc, count = _PRODUCER_HEAD.unpack_from(content)
    found_crc = crc32c(content[_PRODUCER_CRC_END:])
    is_valid = crc == found_crc and len(content) == _PRODUCER_HEAD.size + count * _PRODUCER_SIZE_BYTES
    fields = {"what": "producer snapshot", "version": version, "crc": crc, "producers": count, "isvalid": is_valid}
    yield Fact("entry", fields)
    if crc != found_crc:
        yield problem(2, f"CRC {crc:08x}", f"CRC {found_crc:08x}")
    elif not is_valid:
        expected = f"{counted(count, 'producer')} of {_PRODUCER_SIZE_BYTES} bytes"
        yield problem(_PRODUCER_HEAD.size, expected, f"{len(content) - _PRODUCER_HEAD.size} bytes")


def _epochs(path: Path, content: bytes) -> Iterator[Fact]:
    for entry in epoch_checkpoint.parse_epochs(path, content):
        yield Fact("entry", {"epoch": entry.epoch, "startOffset": entry.start_offset})


def _quorum_state(path: Path, content: bytes) -> Iterator[Fact]:
    stored = quorum_state.parse_quorum_state(path, content)
    voted = stored.election.voted
    yield Fact(
        "entry",
        {
            "leaderId": stored.election.leader_id,
            "leaderEpoch": stored.election.epoch,
            "votedId": None if voted is None else voted.id,
            "votedDirectoryId": None if voted is None or voted.directory_id is None else uuid_text(voted.directory_id),
            "currentVoters": list(stored.voters),
            "dataVersion": stored.data_version,
        },
    )


def _partition_metadata(path: Path, content: bytes) -> Iterator[Fact]:
    topic_id = meta.parse_partition_metadata(path, content)
    yield Fact("entry", {"version": 0, "topicId": uuid_text(topic_id)})


def _meta_properties(path: Path, content: bytes) -> Iterator[Fact]:
    found = meta.parse_meta(path, content)
    directory_id = None if found.directory_id is None else uuid_text(found.directory_id)
    fields = {"nodeId": found.node_id, "clusterId": found.cluster_id, "directoryId": directory_id}
    yield Fact("entry", {"version": int(meta.VERSION), **fields})


def _slots(_path: Path, content: bytes) -> Iterator[Fact]:
    slots = parse_slots(content)
    for slot in slots:
        yield Fact(
            "entry", {"generation": slot.generation, "content": slot.payload.decode("utf-8", "backslashreplace")}
        )
    if not slots:
        yield problem(0, "a slot with a valid CRC", "neither of two")


_FIXED_NAMES: Final[dict[str, Callable[[Path, bytes], Iterator[Fact]]]] = {
    epoch_checkpoint.FILE_NAME: _epochs,
    quorum_state.FILE_NAME: _quorum_state,
    quorum_state.CHECK_NAME: _slots,
    recovery_point.FILE_NAME: _slots,
    quarantine_file.FILE_NAME: _slots,
    proof_file.FILE_NAME: _slots,
    meta.PARTITION_METADATA: _partition_metadata,
    meta.FILE_NAME: _meta_properties,
}

"""The records of a replicated state machine in the log and in snapshots, byte by byte.

Numbers are big-endian. Every record begins with

    version  uint8   1
    kind     uint8   see `LogKind` and `SnapshotKind`

A record of the log continues with its log time (int64, ms), then by kind:

    OPEN     nonce 16 bytes: the client recognizes its session by it; the session's id is the offset of this record
    COMMAND  session int64 | sequence int64 | acknowledged int64 | the command's bytes
    TICK     nothing
    CHECK    nothing: here every replica takes a digest of its state
    DIGEST   node int32 | offset of the CHECK int64 | kind of digest int32 | state 16 bytes | 4 bytes for each command
    VERSION  version of the machine's code int32: from here on commands of it may come; as a question to a node, its id
    SKIP     offset int64 of a command before it that no node applies

All sequence numbers below ``acknowledged`` have had their result, or are given up: none of them is ever applied again.

A record of a snapshot continues by kind:

    HEAD     log time int64 | time of the last sweep int64
    SESSION  id int64 | nonce 16 bytes | time of the last use int64 | acknowledged int64
    RESULT   session int64 | sequence int64 | 0 for a result or 1 for a rejection, uint8 | the result's bytes, or text
    STATE    a record of the application's state
    VERSION  version of the machine's code on which the quorum has agreed int32; left out for 0
    SKIPPED  offset int64 of a command that was skipped

Invariant: a record of a later version is never guessed at: a node that does not know it stops, because replicas that
read the same record differently would part. Later versions are 2 to 15, and a later kind of record of version 1 is one
of 8 to 15. Everything else that is none of the above is foreign to all versions, so all replicas may pass over it.

Source: ours (ADR 068).
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

from pykraft.errors import ForeignRecordError, UnknownRecordError

VERSION: Final = 1
LATER_MAX: Final = 15
"""The highest version of a record, and the highest kind of one in the log, that a later pykraft may write."""
NONCE_SIZE_BYTES: Final = 16
_HEAD: Final = struct.Struct(">BBq")
COMMAND_HEAD: Final = struct.Struct(">BBqqqq")
"""Version, kind, log time, session, sequence, acknowledged."""
_SNAPSHOT_HEAD: Final = struct.Struct(">BBqq")
_SESSION: Final = struct.Struct(">BBq16sqq")
_RESULT: Final = struct.Struct(">BBqqB")
_LENGTH: Final = struct.Struct(">I")
_STATE: Final = struct.Struct(">BB")
_DIGEST: Final = struct.Struct(">BBqiqI16s")
COMMAND_DIGEST_SIZE_BYTES: Final = 4
_CODE: Final = struct.Struct(">BBqi")
_CODE_IN_SNAPSHOT: Final = struct.Struct(">BBi")
_SKIP: Final = struct.Struct(">BBqq")
_SKIPPED: Final = struct.Struct(">BBq")
_TIME: Final = struct.Struct(">q")
_TIME_AT: Final = _STATE.size
_SEQUENCE_AT: Final = _STATE.size + 2 * _TIME.size
COMMAND_OVERHEAD_BYTES: Final = COMMAND_HEAD.size


class LogKind(IntEnum):
    """Kinds of records in the log."""

    OPEN = 1
    COMMAND = 2
    TICK = 3
    CHECK = 4
    DIGEST = 5
    VERSION = 6
    SKIP = 7


class SnapshotKind(IntEnum):
    """Kinds of records in a snapshot."""

    HEAD = 16
    SESSION = 17
    RESULT = 18
    STATE = 19
    VERSION = 20
    SKIPPED = 21


@dataclass(frozen=True, slots=True)
class OpenRecord:
    """A client opens a session."""

    time_ms: int
    nonce: bytes


class CommandRecord(NamedTuple):
    """A command of a session."""

    time_ms: int
    session_id: int
    sequence: int
    acknowledged: int
    command: bytes


@dataclass(frozen=True, slots=True)
class TickRecord:
    """Only the time: the leader writes it while sessions are open and no commands come."""

    time_ms: int


@dataclass(frozen=True, slots=True)
class CheckRecord:
    """The leader asks all replicas for a digest of their state."""

    time_ms: int


@dataclass(frozen=True, slots=True)
class DigestRecord:
    """What one node found at a CHECK; only digests of one ``kind`` can be compared."""

    time_ms: int
    node_id: int
    offset: int
    kind: int
    state: bytes
    commands: bytes
    """The digests of the commands before it, `COMMAND_DIGEST_SIZE_BYTES` each; the last one belongs to the last."""


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """All voters know commands of this version. Where the leader asks a node what it knows, ``version`` is its id."""

    time_ms: int
    version: int


@dataclass(frozen=True, slots=True)
class SkipRecord:
    """The operator gave the command at this offset up."""

    time_ms: int
    offset: int


LogRecord: TypeAlias = OpenRecord | CommandRecord | TickRecord | CheckRecord | DigestRecord | VersionRecord | SkipRecord


@dataclass(frozen=True, slots=True)
class TimeRecord:
    """The first record of a snapshot."""

    time_ms: int
    swept_ms: int


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session; its results follow."""

    session_id: int
    nonce: bytes
    used_ms: int
    acknowledged: int


@dataclass(frozen=True, slots=True)
class ResultRecord:
    """The result of a command that its client may not have got yet."""

    session_id: int
    sequence: int
    is_rejection: bool
    value: bytes


@dataclass(frozen=True, slots=True)
class StateRecord:
    """A record of the application's state."""

    value: bytes


@dataclass(frozen=True, slots=True)
class AgreedRecord:
    """The version of the machine's code on which the quorum had agreed."""

    version: int


@dataclass(frozen=True, slots=True)
class SkippedRecord:
    """The command at this offset was not applied, since the operator gave it up."""

    offset: int


SnapshotRecord: TypeAlias = TimeRecord | AgreedRecord | SkippedRecord | SessionRecord | ResultRecord | StateRecord
COMMAND_KIND: Final = int(LogKind.COMMAND)
_COMMAND_START: Final = bytes((VERSION, COMMAND_KIND))


def encode_log_record(record: LogRecord) -> bytes:
    """The bytes of a record of the log."""
    if isinstance(record, CommandRecord):
        return encode_command(*record)
    if isinstance(record, OpenRecord):
        return _HEAD.pack(VERSION, LogKind.OPEN, record.time_ms) + record.nonce
    if isinstance(record, DigestRecord):
        numbers = (record.time_ms, record.node_id, record.offset, record.kind)
        return _DIGEST.pack(VERSION, LogKind.DIGEST, *numbers, record.state) + record.commands
    if isinstance(record, VersionRecord):
        return _CODE.pack(VERSION, LogKind.VERSION, record.time_ms, record.version)
    if isinstance(record, SkipRecord):
        return _SKIP.pack(VERSION, LogKind.SKIP, record.time_ms, record.offset)
    kind = LogKind.TICK if isinstance(record, TickRecord) else LogKind.CHECK
    return _HEAD.pack(VERSION, kind, record.time_ms)


def encode_command(time_ms: int, session_id: int, sequence: int, acknowledged: int, command: bytes) -> bytes:
    """The bytes of a `CommandRecord`."""
    return COMMAND_HEAD.pack(VERSION, COMMAND_KIND, time_ms, session_id, sequence, acknowledged) + command


def encode_commands(
    sequences: Iterable[int], commands: Iterable[bytes], *, time_ms: int, session_id: int, acknowledged: int
) -> list[bytes]:
    """The bytes of the records of commands that a session sends together."""
    head = COMMAND_HEAD.pack(VERSION, COMMAND_KIND, time_ms, session_id, 0, acknowledged)
    before, after = head[:_SEQUENCE_AT], head[_SEQUENCE_AT + _TIME.size :]
    return [
        before + sequence.to_bytes(8, "big") + after + command
        for sequence, command in zip(sequences, commands, strict=True)
    ]


def decode_log_record(data: bytes) -> LogRecord:
    """The record. Errors: ForeignRecordError for what no version writes, UnknownRecordError for a later one's."""
    if _is_command(data):
        _, _, time_ms, session_id, sequence, acknowledged = COMMAND_HEAD.unpack_from(data)
        return CommandRecord(time_ms, session_id, sequence, acknowledged, data[COMMAND_OVERHEAD_BYTES:])
    try:
        version, kind, time_ms = _HEAD.unpack_from(data)
        if version == VERSION and kind == LogKind.OPEN and len(data) == _HEAD.size + NONCE_SIZE_BYTES:
            return OpenRecord(time_ms, data[_HEAD.size :])
        if version == VERSION and kind == LogKind.TICK and len(data) == _HEAD.size:
            return TickRecord(time_ms)
        if version == VERSION and kind == LogKind.CHECK and len(data) == _HEAD.size:
            return CheckRecord(time_ms)
        if version == VERSION and kind == LogKind.DIGEST:
            node_id, offset, digest_kind, state = _DIGEST.unpack_from(data)[3:]
            return DigestRecord(time_ms, node_id, offset, digest_kind, state, data[_DIGEST.size :])
        if version == VERSION and kind == LogKind.VERSION:
            return VersionRecord(time_ms, _CODE.unpack(data)[3])
        if version == VERSION and kind == LogKind.SKIP:
            return SkipRecord(time_ms, _SKIP.unpack(data)[3])
    except struct.error:
        pass
    start = data[: _STATE.size]
    is_later = len(start) > 1 and (
        VERSION < start[0] <= LATER_MAX or (start[0] == VERSION and max(LogKind) < start[1] <= LATER_MAX)
    )
    raise _unknown(data) if is_later else ForeignRecordError(f"{_described(data)} is none of a state machine")


def check_forwarded(data: bytes) -> bytes | None:
    """The command of a record that another node forwards with others; None for another record that nodes forward so.

    The leader alone writes the time, and asks for digests, which come alone (`forwarded_alone`).
    Errors: UnknownRecordError.
    """
    if _is_command(data):
        return data[COMMAND_OVERHEAD_BYTES:]
    if not isinstance(decode_log_record(data), OpenRecord):
        raise ForeignRecordError(f"{_described(data)} is none that a node forwards")
    return None


def forwarded_alone(records: Sequence[bytes]) -> DigestRecord | VersionRecord | SkipRecord | None:
    """The digest, the question or the skip that these records are, all alone. Errors: UnknownRecordError."""
    record = decode_log_record(records[0]) if len(records) == 1 and not _is_command(records[0]) else None
    return record if isinstance(record, DigestRecord | VersionRecord | SkipRecord) else None


def stamped(data: bytes, time_ms: int) -> bytes:
    """A record of the log with this time instead of its own."""
    return data[:_TIME_AT] + _TIME.pack(time_ms) + data[_HEAD.size :]


def pack_records(records: Sequence[bytes]) -> bytes:
    """Records of the log for one request to the leader: each with its length before it."""
    return b"".join(part for record in records for part in (_LENGTH.pack(len(record)), record))


def unpack_records(data: bytes) -> list[bytes]:
    """The records of a request. Errors: UnknownRecordError."""
    records = []
    position = 0
    while position < len(data):
        begin = position + _LENGTH.size
        size_bytes = int.from_bytes(data[position:begin], "big")
        position = begin + size_bytes
        if position > len(data):
            raise UnknownRecordError(f"{len(data)} bytes of records end within one of {size_bytes} bytes")
        records.append(data[begin:position])
    return records


def encode_snapshot_record(record: SnapshotRecord) -> bytes:
    """The bytes of a record of a snapshot."""
    match record:
        case TimeRecord():
            return _SNAPSHOT_HEAD.pack(VERSION, SnapshotKind.HEAD, record.time_ms, record.swept_ms)
        case SessionRecord():
            session = (record.session_id, record.nonce, record.used_ms, record.acknowledged)
            return _SESSION.pack(VERSION, SnapshotKind.SESSION, *session)
        case ResultRecord():
            numbers = (record.session_id, record.sequence, record.is_rejection)
            return _RESULT.pack(VERSION, SnapshotKind.RESULT, *numbers) + record.value
        case AgreedRecord():
            return _CODE_IN_SNAPSHOT.pack(VERSION, SnapshotKind.VERSION, record.version)
        case SkippedRecord():
            return _SKIPPED.pack(VERSION, SnapshotKind.SKIPPED, record.offset)
        case StateRecord():
            return _STATE.pack(VERSION, SnapshotKind.STATE) + record.value


def decode_snapshot_record(data: bytes) -> SnapshotRecord:
    """The record. Errors: UnknownRecordError."""
    try:
        version, kind = _STATE.unpack_from(data)
        if version == VERSION and kind == SnapshotKind.STATE:
            return StateRecord(data[_STATE.size :])
        if version == VERSION and kind == SnapshotKind.RESULT:
            session_id, sequence, is_rejection = _RESULT.unpack_from(data)[2:]
            return ResultRecord(session_id, sequence, bool(is_rejection), data[_RESULT.size :])
        if version == VERSION and kind == SnapshotKind.SESSION:
            _, _, session, nonce, used_ms, acknowledged = _SESSION.unpack(data)
            return SessionRecord(session, nonce, used_ms, acknowledged)
        if version == VERSION and kind == SnapshotKind.HEAD:
            return TimeRecord(*_SNAPSHOT_HEAD.unpack(data)[2:])
        if version == VERSION and kind == SnapshotKind.VERSION:
            return AgreedRecord(_CODE_IN_SNAPSHOT.unpack(data)[2])
        if version == VERSION and kind == SnapshotKind.SKIPPED:
            return SkippedRecord(_SKIPPED.unpack(data)[2])
    except struct.error:
        pass
    raise _unknown(data)


def _is_command(data: bytes) -> bool:
    return data[:_TIME_AT] == _COMMAND_START and len(data) >= COMMAND_OVERHEAD_BYTES


def _unknown(data: bytes) -> UnknownRecordError:
    return UnknownRecordError(
        f"{_described(data)} is none of version {VERSION} of a state machine: a newer pykraft wrote it"
    )


def _described(data: bytes) -> str:
    return f"a record of {len(data)} bytes that begins with {data[:10].hex(' ')}"

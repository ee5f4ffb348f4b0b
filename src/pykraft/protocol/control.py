"""Control records: Raft's own records in the log, as the key and value of a record.

A key is two int16: its version (only 0 exists; a higher one is read as 0) and the type of the record:

| type | record | value |
|---|---|---|
| 0, 1 | end of a transaction: abort, commit | never in a KRaft log; refused |
| 2 | LeaderChange | version 0 (1 adds directory ids, which are read and dropped) |
| 3 | SnapshotHeader | version 0 |
| 4 | SnapshotFooter | version 0 |
| 5 | KRaftVersion | version 0 |
| 6 | KRaftVoters | version 0 |
| 30001 | GroupState | version 0: pykraft's own, of consumer groups; not one of Raft's |

A value begins with the version of its own schema, and has no other prefix. Its schema is flexible: compact arrays and
strings, and tagged fields after each struct; unknown ones are skipped.

Source: KIP-595, KIP-630, KIP-853; Kafka's ``ControlRecordType`` and its message definitions ``LeaderChangeMessage``,
``SnapshotHeaderRecord``, ``SnapshotFooterRecord``, ``KRaftVersionRecord``, ``VotersRecord``.
"""

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Final, assert_never

from pykraft import types
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.reader import Read, compile_reader
from pykraft.protocol.schema import (
    BOOL,
    INT16,
    INT32,
    INT64,
    STRING,
    UINT16,
    UUID,
    Body,
    Field,
    Message,
    array_of,
    struct_of,
)
from pykraft.protocol.writer import compile_writer

_KEY: Final = struct.Struct(">hh")
_VERSION: Final = struct.Struct(">h")
_WRITTEN_VERSION: Final = 0


class ControlType(IntEnum):
    """The record type in a control record's key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6
    GROUP_STATE = 30_001
    """pykraft's own. Kafka counts its types from 0 and asks for few: so far away none will ever be another one."""


def _table(name: str, *fields: Field, versions: str = "0") -> Message:
    return Message.of(name, versions, "0+", Field("version", INT16), *fields)


_LEADER_VOTER = (Field("voter_id", INT32), Field("voter_directory_id", UUID, "1+", ignorable=True))
TABLES: Final = {
    ControlType.LEADER_CHANGE: _table(
        "LeaderChange",
        Field("leader_id", INT32),
        array_of("voters", *_LEADER_VOTER),
        array_of("granting_voters", *_LEADER_VOTER),
        versions="0-1",
    ),
    ControlType.SNAPSHOT_HEADER: _table("SnapshotHeader", Field("last_contained_log_timestamp", INT64)),
    ControlType.SNAPSHOT_FOOTER: _table("SnapshotFooter"),
    ControlType.KRAFT_VERSION: _table("KRaftVersion", Field("k_raft_version", INT16)),
    ControlType.KRAFT_VOTERS: _table(
        "KRaftVoters",
        array_of(
            "voters",
            Field("voter_id", INT32),
            Field("voter_directory_id", UUID),
            array_of("endpoints", Field("name", STRING), Field("host", STRING), Field("port", UINT16)),
            struct_of(
                "k_raft_version_feature", Field("min_supported_version", INT16), Field("max_supported_version", INT16)
            ),
        ),
    ),
    ControlType.GROUP_STATE: _table(
        "GroupState",
        Field("group_id", STRING),
        Field("is_deleted", BOOL),
        Field("type", STRING, nullable=True, default=None),
        Field("generation", INT32),
        Field("protocol_type", STRING),
        Field("protocol", STRING, nullable=True, default=None),
        Field("empty_since", INT64),
        array_of(
            "offsets",
            Field("topic", STRING),
            Field("partition", INT32),
            Field("offset", INT64),
            Field("leader_epoch", INT32),
            Field("metadata", STRING),
            Field("commit_timestamp", INT64),
        ),
    ),
}
"""The schema of each value that may be in a Raft log, and of the state of consumer groups.

A GroupState changes one group. With ``is_deleted`` it is gone, with its offsets. ``type`` null leaves everything but
the offsets as it is. An offset of -1 removes that of its partition.
"""

_READERS: Final[dict[tuple[int, int], Read]] = {
    (kind, version): compile_reader(table, version)
    for kind, table in TABLES.items()
    for version in range(table.versions.min, table.versions.max + 1)
}
_WRITERS: Final = {kind: compile_writer(table, _WRITTEN_VERSION) for kind, table in TABLES.items()}


def control_type(key: types.Buffer | None) -> int:
    """The type in a control record's key; a number outside `ControlType` is returned unchanged.

    Errors: INVALID_RECORD when the key is missing, cut, or of a negative version.
    """
    if key is None or len(key) < _KEY.size:
        raise _refusal(f"its key has {0 if key is None else len(key)} of {_KEY.size} bytes")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise _refusal(f"its key has version {version}")
    return int(number)


def encode_control(record: types.ControlRecord) -> tuple[bytes, bytes]:
    """Key and value of a control record, in the version that Kafka writes."""
    kind, body = _to_body(record)
    return _KEY.pack(0, kind), _value_of(kind, body)


GROUP_STATE_KEY: Final = _KEY.pack(0, ControlType.GROUP_STATE)


def encode_group_state(body: Body) -> bytes:
    """The value of one GroupState record; its key is `GROUP_STATE_KEY`."""
    return _value_of(ControlType.GROUP_STATE, body)


def _value_of(kind: ControlType, body: Body) -> bytes:
    (value,) = _WRITERS[kind]({**body, "version": _WRITTEN_VERSION}, b"")
    return bytes(value)


def decode_control_value(key: types.Buffer | None, value: types.Buffer | None) -> types.ControlRecord:
    """The control record with this key and value.

    Errors: as `read_control_body`; INVALID_RECORD for an impossible id.
    """
    kind, body = read_control_body(key, value)
    if kind not in _FROM_BODY:
        raise _refusal(f"{TABLES[kind].name} is not one of Raft's")
    return _FROM_BODY[kind](body)


def read_control_body(key: types.Buffer | None, value: types.Buffer | None) -> tuple[ControlType, Body]:
    """Type and body of a control record, before it becomes one of our classes.

    Errors: INVALID_RECORD for a type that does not belong in a Raft log, an unknown version, and a value that is cut or
    too long.
    """
    number = control_type(key)
    if number not in TABLES:
        raise _refusal(f"type {number} is not one of Raft's")
    kind = ControlType(number)
    name = TABLES[kind].name
    if value is None or len(value) < _VERSION.size:
        raise _refusal(f"{name} has {0 if value is None else len(value)} bytes, less than its version takes")
    (version,) = _VERSION.unpack_from(value)
    read = _READERS.get((kind, version))
    if read is None:
        raise _refusal(f"{name} has version {version}, which is not known")
    try:
        body, end = read(value, 0, len(value))
    except ProtocolError as error:
        raise _refusal(str(error)) from None
    if end != len(value):
        raise _refusal(f"{len(value) - end} bytes follow its {name}")
    return kind, body


def _refusal(problem: str) -> ProtocolError:
    return ProtocolError(f"a control record cannot be read: {problem}", ErrorCode.INVALID_RECORD)


def _to_body(record: types.ControlRecord) -> tuple[ControlType, Body]:
    match record:
        case types.LeaderChange():
            return ControlType.LEADER_CHANGE, {
                "leader_id": record.leader_id,
                "voters": [{"voter_id": node_id} for node_id in record.voters],
                "granting_voters": [{"voter_id": node_id} for node_id in record.granting_voters],
            }
        case types.SnapshotHeader():
            return ControlType.SNAPSHOT_HEADER, {"last_contained_log_timestamp": record.last_contained_log_timestamp}
        case types.SnapshotFooter():
            return ControlType.SNAPSHOT_FOOTER, {}
        case types.KRaftVersion():
            return ControlType.KRAFT_VERSION, {"k_raft_version": record.level}
        case types.KRaftVoters():
            return ControlType.KRAFT_VOTERS, {"voters": [_voter_to_body(voter) for voter in record.voters.voters]}
        case _:
            assert_never(record)


def _voter_to_body(voter: types.Voter) -> Body:
    return {
        "voter_id": voter.key.id,
        "voter_directory_id": voter.key.directory_id or types.ZERO_UUID,
        "endpoints": [{"name": name, "host": at.host, "port": at.port} for name, at in voter.listeners],
        "k_raft_version_feature": {
            "min_supported_version": voter.kraft_version.min_version,
            "max_supported_version": voter.kraft_version.max_version,
        },
    }


def _leader_change(body: Body) -> types.LeaderChange:
    return types.LeaderChange(
        leader_id=_node_id(body["leader_id"]),
        voters=tuple(_node_id(voter["voter_id"]) for voter in body["voters"]),
        granting_voters=tuple(_node_id(voter["voter_id"]) for voter in body["granting_voters"]),
    )


def _voter(body: Body) -> types.Voter:
    directory_id = types.Uuid(body["voter_directory_id"])
    told = ((one["name"].upper(), types.Endpoint(one["host"], one["port"])) for one in body["endpoints"])
    # Every node reads this record at every start, so a bad endpoint must not raise an error here. Leave it out; nobody
    # dials a voter without an endpoint until it sends another one.
    endpoints = (entry for entry in told if entry[1].can_be_dialed)
    feature = body["k_raft_version_feature"]
    return types.Voter(
        key=types.ReplicaKey(_node_id(body["voter_id"]), None if directory_id == types.ZERO_UUID else directory_id),
        listeners=types.Listeners(tuple(endpoints)),
        kraft_version=types.VersionRange(feature["min_supported_version"], feature["max_supported_version"]),
    )


def _voters(body: Body) -> types.KRaftVoters:
    if not body["voters"]:
        # An empty set has no majority, so no correct leader writes one.
        raise _refusal("its voter set is empty")
    return types.KRaftVoters(types.VoterSet.of(map(_voter, body["voters"])))


def _node_id(number: int) -> types.NodeId:
    if number < 0:
        raise _refusal(f"{number} is not a node's id")
    return types.NodeId(number)


_FROM_BODY: Final[dict[ControlType, Callable[[Body], types.ControlRecord]]] = {
    ControlType.LEADER_CHANGE: _leader_change,
    ControlType.SNAPSHOT_HEADER: lambda body: types.SnapshotHeader(body["last_contained_log_timestamp"]),
    ControlType.SNAPSHOT_FOOTER: lambda _: types.SnapshotFooter(),
    ControlType.KRAFT_VERSION: lambda body: types.KRaftVersion(body["k_raft_version"]),
    ControlType.KRAFT_VOTERS: _voters,
}

"""Control records: compared with kio for every schema; records that do not belong in a Raft log."""

import io
import struct
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.k_raft_version_record.v0.data import KRaftVersionRecord
from kio.schema.leader_change_message.v0 import data as leader_change_v0
from kio.schema.leader_change_message.v1 import data as leader_change_v1
from kio.schema.snapshot_footer_record.v0.data import SnapshotFooterRecord
from kio.schema.snapshot_header_record.v0.data import SnapshotHeaderRecord
from kio.schema.types import BrokerId
from kio.schema.voters_record.v0 import data as voters_v0
from kio.serial import entity_writer
from kio.static.primitive import i16, i64, u16
from kio.static.protocol import Entity

from pykraft import types
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.batch import GROUP_STATE_BITS
from pykraft.protocol.control import (
    GROUP_STATE_KEY,
    ControlType,
    control_type,
    decode_control_value,
    encode_control,
    encode_group_state,
    read_control_body,
)
from pykraft.protocol.records import (
    control_records,
    decode_control,
    decode_group_batch,
    encode_control_batch,
    encode_group_batch,
    membership_records,
)
from tests.host.clients.world import with_header

INT16 = st.integers(-(2**15), 2**15 - 1)
NODE_IDS = st.integers(0, 2**31 - 1).map(types.NodeId)
DIRECTORY_IDS = st.binary(min_size=16, max_size=16).filter(any).map(types.Uuid)
NAMES = st.text(st.characters(min_codepoint=45, max_codepoint=0x24F, exclude_categories=["Ll"]), max_size=40)
ENDPOINTS = st.builds(types.Endpoint, st.text(max_size=40), st.integers(0, 65_535)).filter(
    lambda one: one.can_be_dialed
)
VOTERS = st.builds(
    types.Voter,
    key=st.builds(types.ReplicaKey, NODE_IDS, st.none() | DIRECTORY_IDS),
    listeners=st.lists(st.tuples(NAMES.map(str.upper), ENDPOINTS), max_size=3).map(tuple).map(types.Listeners),
    kraft_version=st.builds(types.VersionRange, INT16, INT16),
)
CONTROL_RECORDS: st.SearchStrategy[types.ControlRecord] = st.one_of(
    st.builds(
        types.LeaderChange,
        leader_id=NODE_IDS,
        voters=st.lists(NODE_IDS, max_size=200).map(tuple),
        granting_voters=st.lists(NODE_IDS, max_size=5).map(tuple),
    ),
    st.builds(types.SnapshotHeader, st.integers(-(2**63), 2**63 - 1)),
    st.just(types.SnapshotFooter()),
    st.builds(types.KRaftVersion, INT16),
    st.builds(types.KRaftVoters, st.lists(VOTERS, min_size=1, max_size=5).map(types.VoterSet.of)),
)
SOME: list[types.ControlRecord] = [
    types.LeaderChange(
        leader_id=types.NodeId(3), voters=(types.NodeId(1), types.NodeId(3)), granting_voters=(types.NodeId(3),)
    ),
    types.SnapshotHeader(7),
    types.SnapshotFooter(),
    types.KRaftVersion(1),
    types.KRaftVoters(
        types.VoterSet.of(
            [
                types.Voter(
                    key=types.ReplicaKey(types.NodeId(1), types.Uuid(bytes(range(16)))),
                    listeners=types.Listeners((("CONTROLLER", types.Endpoint("localhost", 9093)),)),
                )
            ]
        )
    ),
]


def written_by_kio(entity: Entity) -> bytes:
    with io.BytesIO() as sink:
        entity_writer(type(entity))(sink, entity)
        return sink.getvalue()


def twin(record: types.ControlRecord) -> Entity:
    match record:
        case types.LeaderChange():
            return leader_change_v0.LeaderChangeMessage(
                version=i16(0),
                leader_id=BrokerId(record.leader_id),
                voters=tuple(leader_change_v0.Voter(voter_id=BrokerId(one)) for one in record.voters),
                granting_voters=tuple(leader_change_v0.Voter(voter_id=BrokerId(one)) for one in record.granting_voters),
            )
        case types.SnapshotHeader(timestamp):
            return SnapshotHeaderRecord(version=i16(0), last_contained_log_timestamp=i64(timestamp))
        case types.SnapshotFooter():
            return SnapshotFooterRecord(version=i16(0))
        case types.KRaftVersion(level):
            return KRaftVersionRecord(version=i16(0), k_raft_version=i16(level))
        case types.KRaftVoters(voters):
            return voters_v0.VotersRecord(version=i16(0), voters=tuple(map(voter_twin, voters.voters)))


def voter_twin(voter: types.Voter) -> voters_v0.Voter:
    return voters_v0.Voter(
        voter_id=BrokerId(voter.key.id),
        voter_directory_id=None if voter.key.directory_id is None else uuid.UUID(bytes=voter.key.directory_id),
        endpoints=tuple(voters_v0.Endpoint(name=name, host=at.host, port=u16(at.port)) for name, at in voter.listeners),
        k_raft_version_feature=voters_v0.KRaftVersionFeature(
            min_supported_version=i16(voter.kraft_version.min_version),
            max_supported_version=i16(voter.kraft_version.max_version),
        ),
    )


@pytest.mark.conformance(116, 141)
@given(CONTROL_RECORDS)
def test_control_records_come_back(record: types.ControlRecord) -> None:
    key, value = encode_control(record)
    assert decode_control_value(key, value) == record
    assert decode_control_value(memoryview(key), memoryview(value)) == record


@pytest.mark.conformance(116)
@given(CONTROL_RECORDS)
def test_kio_writes_the_same_values(record: types.ControlRecord) -> None:
    assert encode_control(record)[1] == written_by_kio(twin(record))


@pytest.mark.parametrize(("record", "kind"), list(zip(SOME, list(ControlType)[2:-1], strict=True)))
def test_keys_hold_version_0_and_the_type(record: types.ControlRecord, kind: ControlType) -> None:
    key, _ = encode_control(record)
    assert key == struct.pack(">hh", 0, kind)
    assert ControlType(control_type(key)) is kind


def test_a_higher_key_version_is_read_as_0() -> None:
    _, value = encode_control(types.KRaftVersion(1))
    assert decode_control_value(struct.pack(">hh", 3, 5) + b"more", value) == types.KRaftVersion(1)


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (None, "0 of 4 bytes"),
        (b"\x00\x00\x00", "3 of 4 bytes"),
        (struct.pack(">hh", -1, 2), "version -1"),
        (struct.pack(">hh", 0, 0), "type 0 is not one of Raft's"),
        (struct.pack(">hh", 0, 1), "type 1 is not"),
        (struct.pack(">hh", 0, 7), "type 7 is not"),
        (struct.pack(">hh", 0, -1), "type -1 is not"),
    ],
)
def test_a_key_that_does_not_belong_is_refused(key: bytes | None, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem) as caught:
        decode_control_value(key, encode_control(types.SnapshotFooter())[1])
    assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("record", SOME)
def test_a_value_cut_at_any_byte_or_followed_by_one_is_refused(record: types.ControlRecord) -> None:
    key, value = encode_control(record)
    for cut in [None, *(value[:size_bytes] for size_bytes in range(len(value))), value + b"\x00"]:
        with pytest.raises(ProtocolError) as caught:
            decode_control_value(key, cut)
        assert caught.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("record", SOME)
@pytest.mark.parametrize("version", [-1, 2])
def test_an_unknown_version_is_refused(record: types.ControlRecord, version: int) -> None:
    key, value = encode_control(record)
    with pytest.raises(ProtocolError, match=f"{type(record).__name__} has version {version}, which is not known"):
        decode_control_value(key, struct.pack(">h", version) + value[2:])


def test_directory_ids_of_a_leader_change_are_read_past() -> None:
    voters = tuple(
        leader_change_v1.Voter(voter_id=BrokerId(node_id), voter_directory_id=uuid.UUID(int=node_id + 99))
        for node_id in (1, 2)
    )
    value = written_by_kio(
        leader_change_v1.LeaderChangeMessage(
            version=i16(1), leader_id=BrokerId(2), voters=voters, granting_voters=voters[1:]
        )
    )
    assert decode_control_value(struct.pack(">hh", 0, 2), value) == types.LeaderChange(
        leader_id=types.NodeId(2), voters=(types.NodeId(1), types.NodeId(2)), granting_voters=(types.NodeId(2),)
    )


def test_unknown_tagged_fields_are_skipped() -> None:
    key, value = encode_control(types.KRaftVersion(1))
    assert decode_control_value(key, value[:-1] + bytes.fromhex("01 05 02 abcd")) == types.KRaftVersion(1)


def test_listener_names_become_upper_case_and_of_two_voters_with_an_id_the_last_stays() -> None:
    first, second = (
        voters_v0.Voter(
            voter_id=BrokerId(4),
            voter_directory_id=None,
            endpoints=(voters_v0.Endpoint(name="Controller", host=host, port=u16(1)),),
            k_raft_version_feature=voters_v0.KRaftVersionFeature(
                min_supported_version=i16(0), max_supported_version=i16(1)
            ),
        )
        for host in ("old", "new")
    )
    value = written_by_kio(voters_v0.VotersRecord(version=i16(0), voters=(first, second)))
    expected = types.Voter(
        key=types.ReplicaKey(types.NodeId(4)),
        listeners=types.Listeners((("CONTROLLER", types.Endpoint("new", 1)),)),
        kraft_version=types.VersionRange(0, 1),
    )
    assert decode_control_value(struct.pack(">hh", 0, 6), value) == types.KRaftVoters(types.VoterSet((expected,)))


def test_a_negative_node_id_is_refused() -> None:
    key, value = encode_control(SOME[0])
    with pytest.raises(ProtocolError, match="-1 is not a node's id"):
        decode_control_value(key, value[:2] + struct.pack(">i", -1) + value[6:])


def test_a_count_beyond_the_value_is_refused() -> None:
    key, _ = encode_control(SOME[0])
    with pytest.raises(ProtocolError, match="LeaderChange"):
        decode_control_value(key, bytes.fromhex("0000 00000001 ffffffff0f"))


def test_a_voter_set_without_voters_is_refused() -> None:
    value = written_by_kio(voters_v0.VotersRecord(version=i16(0), voters=()))
    with pytest.raises(ProtocolError, match="empty"):
        decode_control_value(struct.pack(">hh", 0, 6), value)


def test_an_endpoint_that_nobody_can_dial_is_left_out_of_a_committed_voter_set() -> None:
    sound = ("CONTROLLER", types.Endpoint("node-1", 9_093))
    bad = [("A", types.Endpoint("127.0.0.1\0", 1)), ("B", types.Endpoint("", 1)), ("C", types.Endpoint("node-1", 0))]
    key = types.ReplicaKey(types.NodeId(1), types.Uuid(b"d" * 16))
    told = types.KRaftVoters(
        types.VoterSet.of([types.Voter(key=key, listeners=types.Listeners((bad[0], sound, *bad[1:])))])
    )
    assert decode_control_value(*encode_control(told)) == types.KRaftVoters(
        types.VoterSet.of([types.Voter(key=key, listeners=types.Listeners((sound,)))])
    )


def test_the_state_of_groups_is_not_one_of_rafts() -> None:
    body = {"group_id": "g", "is_deleted": False, "type": None, "generation": 0, "protocol_type": ""}
    body |= {"protocol": None, "empty_since": -1, "offsets": []}
    value = encode_group_state(body)
    assert read_control_body(GROUP_STATE_KEY, value) == (ControlType.GROUP_STATE, {**body, "version": 0})
    with pytest.raises(ProtocolError, match="GroupState is not one of Raft's"):
        decode_control_value(GROUP_STATE_KEY, value)
    batch = encode_group_batch([value], timestamp_ms=7)
    assert decode_control(batch.data) == []
    assert list(control_records(batch.data)) == []
    assert decode_group_batch(batch.data) == [{**body, "version": 0}]


@pytest.mark.parametrize("what", ["nothing", "no state", "one of Raft's", "compressed"])
def test_a_batch_of_groups_that_no_node_could_apply_does_not_get_into_a_log(what: str) -> None:
    place: Any = {"base_offset": types.Offset(0), "epoch": types.Epoch(1), "timestamp_ms": 1}
    raft = encode_control_batch([types.KRaftVersion(1)], **place)
    found = {
        "nothing": lambda: encode_group_batch([b""], timestamp_ms=1).data,
        "no state": lambda: encode_group_batch([b"\0\1garbage"], timestamp_ms=1).data,
        "one of Raft's": lambda: with_header(raft.data, attributes=GROUP_STATE_BITS).data,
        "compressed": lambda: with_header(raft.data, attributes=GROUP_STATE_BITS | 1).data,
    }[what]()
    for read in (decode_control, lambda batch: list(membership_records(batch))):
        with pytest.raises(ProtocolError):
            read(found)

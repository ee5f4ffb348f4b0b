"""Generated writers: defaults, fields that a version lacks, and records without a copy."""

import pytest

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.messages.elections import END_QUORUM_EPOCH_REQUEST, VOTE_REQUEST, VOTE_RESPONSE
from pykraft.protocol.messages.fetch import FETCH_REQUEST, FETCH_RESPONSE
from pykraft.protocol.messages.voters import ADD_RAFT_VOTER_REQUEST
from pykraft.protocol.primitives import UNKNOWN_TAGS
from pykraft.protocol.schema import INT32, STRING, UUID, Array, Field, Message, array_of, struct_of
from pykraft.protocol.writer import BY_REFERENCE_SIZE_BYTES_MIN, compile_writer
from pykraft.types import Buffer
from tests.protocol.bodies import write


def test_keys_left_out_take_their_defaults() -> None:
    assert write(VOTE_REQUEST, 2, {}).hex() == "00 ffffffff 01 00".replace(" ", "")
    assert write(ADD_RAFT_VOTER_REQUEST, 1, {}).endswith(bytes.fromhex("01 01 00"))  # no listeners, ack when committed


def test_the_header_stands_in_front() -> None:
    assert write(VOTE_RESPONSE, 0, {}, b"head") == b"head" + bytes.fromhex("0000 01 00")


def test_a_tagged_field_is_written_only_when_it_differs() -> None:
    message = Message.of(
        "M",
        "0",
        "0+",
        Field("a", INT32, default=5, tag=0),
        array_of("b", Field("x", INT32), tag=1),
        struct_of("c", Field("x", INT32, default=-1), Field("y", INT32), tag=2),
        Field("d", STRING, default=None, nullable=True, tag=3),
    )
    assert write(message, 0, {"a": 5, "b": [], "c": {"x": -1}, "d": None}) == b"\0"
    assert write(message, 0, {"a": 6}).hex() == "01000400000006"
    assert write(message, 0, {"b": [{}]}).hex() == "01010602" + "00000000" + "00"
    assert write(message, 0, {"c": {"y": 1}}).hex() == "010209" + "ffffffff" + "00000001" + "00"
    assert write(message, 0, {"c": {UNKNOWN_TAGS: {0: b""}}}).hex() == "01020b" + "ffffffff" + "00000000" + "010000"
    assert write(message, 0, {"d": ""}).hex() == "01030101"


def test_a_tagged_array_that_may_be_null_is_written_when_it_differs_from_its_default() -> None:
    null = Message.of("M", "0", "0+", Field("a", Array(INT32), default=None, nullable=True, tag=0))
    empty = Message.of("M", "0", "0+", Field("a", Array(INT32), nullable=True, tag=0))
    assert write(null, 0, {"a": None}) == write(empty, 0, {"a": []}) == write(empty, 0, {"a": ()}) == b"\0"
    assert write(null, 0, {"a": []}).hex() == "01000101"
    assert write(empty, 0, {"a": None}).hex() == "01000100"
    assert write(empty, 0, {"a": [7]}).hex() == "010005" + "02" + "00000007"


def test_a_uuid_of_an_array_has_16_bytes() -> None:
    message = Message.of("M", "0", "0+", Field("a", Array(UUID)))
    with pytest.raises(AssertionError, match="a uuid has 16 bytes"):
        write(message, 0, {"a": [bytes(15)]})


def test_unknown_tags_stand_in_tag_order_and_vanish_where_there_are_none() -> None:
    message = Message.of("M", "0-1", "1+", Field("a", INT32, "1+", tag=5, ignorable=True))
    assert (
        write(message, 1, {"a": 1, UNKNOWN_TAGS: {9: b"n", 2: b"t"}}).hex()
        == "03" + "020174" + "050400000001" + "09016e"
    )
    assert write(message, 0, {"a": 1, UNKNOWN_TAGS: {9: b"n"}}) == b""


def test_ignorable_fields_are_dropped_where_the_version_lacks_them() -> None:
    body: dict[str, object] = {
        "topics": [
            {
                "topic_name": "t",
                "partitions": [{"preferred_candidates": [{"candidate_id": 1}], "preferred_successors": [2]}],
            }
        ],
        "leader_endpoints": [{"name": "C", "host": "h", "port": 1}],
    }
    assert b"C" not in write(END_QUORUM_EPOCH_REQUEST, 0, body)
    assert bytes.fromhex("00000001 00000002") in write(END_QUORUM_EPOCH_REQUEST, 0, body)
    assert bytes.fromhex("02 00000001") + bytes(16) + b"\0" in write(END_QUORUM_EPOCH_REQUEST, 1, body)


@pytest.mark.parametrize(
    ("message", "version", "body", "field"),
    [
        (VOTE_REQUEST, 1, {"topics": [{"partitions": [{"pre_vote": True}]}]}, r"topics\[\].partitions\[\].pre_vote"),
        (ADD_RAFT_VOTER_REQUEST, 0, {"ack_when_committed": False}, "ack_when_committed"),
        (VOTE_RESPONSE, 0, {"node_endpoints": [{}]}, "node_endpoints"),
        (FETCH_REQUEST, 14, {"replica_state": {"replica_id": 1}}, "replica_state"),
        (FETCH_REQUEST, 15, {"replica_id": 1}, "replica_id"),
    ],
)
def test_what_a_version_cannot_carry_is_refused(
    message: Message, version: int, body: dict[str, object], field: str
) -> None:
    with pytest.raises(ProtocolError, match=f"{message.name} v{version} has no field {field}") as caught:
        write(message, version, body)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_defaults_of_such_fields_pass() -> None:
    write(VOTE_REQUEST, 1, {"topics": [{"partitions": [{"pre_vote": False}]}]})
    write(FETCH_REQUEST, 14, {"replica_state": {"replica_id": -1}})
    write(VOTE_RESPONSE, 0, {"node_endpoints": []})


def test_unknown_keys_are_our_bug() -> None:
    with pytest.raises(AssertionError, match=r"VoteRequest topics\[\]: unknown keys {'topic'}"):
        write(VOTE_REQUEST, 2, {"topics": [{"topic": "t"}]})
    with pytest.raises(AssertionError, match=r"VoteRequest: unknown keys \{'x'\}"):
        write(VOTE_REQUEST, 2, {"x": 1})


def test_a_uuid_has_16_bytes() -> None:
    message = Message.of("M", "0", "0+", Field("id", UUID), Field("ids", Array(INT32)))
    for value in (b"", bytes(15), bytes(17)):
        with pytest.raises(AssertionError, match="the uuid id has not 16 bytes"):
            write(message, 0, {"id": value})


def _fetched(records: object) -> list[Buffer]:
    body = {"responses": [{"partitions": [{"records": records}]}]}
    return compile_writer(FETCH_RESPONSE, 16)(body, b"head")


def test_large_records_are_passed_on_and_not_copied() -> None:
    records = memoryview(bytes(BY_REFERENCE_SIZE_BYTES_MIN))
    buffers = _fetched(records)
    assert buffers[1] is records
    assert len(buffers) == 3
    assert b"".join(buffers) == b"".join(_fetched(bytes(records)))
    assert len(_fetched(bytes(BY_REFERENCE_SIZE_BYTES_MIN - 1))) == 1


def test_records_may_be_several_buffers() -> None:
    parts: list[Buffer] = [b"a" * 600, b"b" * 10, memoryview(b"c" * 700), b"d"]
    buffers = _fetched(parts)
    assert b"".join(buffers) == b"".join(_fetched(b"".join(parts)))
    assert buffers[1] is parts[0]
    assert buffers[3] is parts[2]


def test_two_large_parts_in_a_row_have_nothing_between_them() -> None:
    parts: list[Buffer] = [b"a" * 600, b"b" * 600]
    assert [bytes(buffer) for buffer in _fetched(parts)][1:3] == parts


def test_null_records_are_not_empty_records() -> None:
    assert b"".join(_fetched(None)) != b"".join(_fetched(b""))


def test_a_version_that_does_not_exist_is_our_bug() -> None:
    with pytest.raises(AssertionError, match="FetchRequest has no version 3"):
        compile_writer(FETCH_REQUEST, 3)

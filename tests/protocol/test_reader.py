"""Generated readers: every version of every message, every cut, and random bytes."""

import contextlib
import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pykraft.errors import ProtocolError, TooManyElementsError
from pykraft.protocol import schema
from pykraft.protocol.messages.elections import END_QUORUM_EPOCH_REQUEST, VOTE_REQUEST
from pykraft.protocol.messages.fetch import FETCH_REQUEST
from pykraft.protocol.primitives import UNKNOWN_TAGS
from pykraft.protocol.reader import compile_reader
from pykraft.protocol.writer import compile_writer
from tests.memory import taking_less_than
from tests.protocol.bodies import ALL_MESSAGES, bodies, message_id, read, write

SAMPLE = schema.Message.of(
    "Sample",
    "0-2",
    "1+",
    schema.Field("text", schema.STRING, default=None, nullable=True),
    schema.array_of("rows", schema.Field("id", schema.UUID), schema.Field("size", schema.INT16), nullable=True),
    schema.Field("numbers", schema.Array(schema.INT32)),
    schema.Field("data", schema.RECORDS, default=None, nullable=True),
    schema.struct_of("place", schema.Field("offset", schema.INT64), schema.Field("epoch", schema.INT32)),
    schema.Field("late", schema.INT32, "2+", default=-1, ignorable=True),
    schema.Field("mark", schema.INT32, "1+", default=7, tag=0, ignorable=True),
    schema.struct_of(
        "leader",
        schema.Field("id", schema.INT32),
        schema.Field("epoch", schema.INT32, default=5),
        versions="2+",
        tag=2,
        ignorable=True,
    ),
)
FULL = {
    "text": "ab",
    "rows": [{"id": bytes(range(16)), "size": 3}],
    "numbers": [1, -2],
    "data": b"xyz",
    "place": {"offset": 9, "epoch": 4},
    "late": -1,
    "mark": 7,
    "leader": {"id": 0, "epoch": 5},
}


def test_every_version_of_every_message_has_a_reader_and_a_writer() -> None:
    for message, version in ALL_MESSAGES:
        for keeps in (False, True):
            assert callable(compile_reader(message, version, keeps_unknown_tags=keeps))
        assert callable(compile_writer(message, version))


def test_version_that_is_not_flexible_has_wide_lengths_and_no_tags() -> None:
    raw = bytes.fromhex(
        "0002 6162  00000001 000102030405060708090a0b0c0d0e0f 0003  00000002 00000001 fffffffe"
        "00000003 78797a  0000000000000009 00000004"
    )
    assert read(SAMPLE, 0, raw) == (FULL, len(raw))


def test_flexible_version_has_compact_lengths_and_tags_in_every_struct() -> None:
    raw = bytes.fromhex(
        "03 6162  02 000102030405060708090a0b0c0d0e0f 0003 00  03 00000001 fffffffe"
        "04 78797a  0000000000000009 00000004 00  00000000"
        "02  00 04 00000008  02 09 00000001 00000002 00"
    )
    body = {**FULL, "late": 0, "mark": 8, "leader": {"id": 1, "epoch": 2}}
    assert read(SAMPLE, 2, raw) == (body, len(raw))


def test_nulls() -> None:
    body = {**FULL, "text": None, "rows": None, "data": None, "numbers": []}
    raw = bytes.fromhex("ffff ffffffff 00000000 ffffffff 0000000000000009 00000004")
    assert read(SAMPLE, 0, raw) == (body, len(raw))
    raw = bytes.fromhex("00 00 01 00 0000000000000009 00000004 00 00")
    assert read(SAMPLE, 1, raw) == (body, len(raw))


def test_null_where_none_may_be_is_refused() -> None:
    raw = bytes.fromhex("00 00 00 00 0000000000000009 00000004 00 00")
    with pytest.raises(ProtocolError, match="Sample v1 field numbers: the array before position 3 has -1 elements"):
        read(SAMPLE, 1, raw)


def test_defaults_of_two_bodies_are_not_the_same_object() -> None:
    raw = write(VOTE_REQUEST, 0, {})
    first, _ = read(VOTE_REQUEST, 0, raw)
    first["topics"].append(1)
    assert read(VOTE_REQUEST, 0, raw)[0]["topics"] == []


def test_records_are_views_of_the_frame() -> None:
    frame = bytearray(write(SAMPLE, 1, {**FULL, "data": b"abc"}))
    body, _ = compile_reader(SAMPLE, 1)(frame, 0, len(frame))
    frame[frame.index(b"abc")] = ord("X")
    assert body["data"] == b"Xbc"


def test_an_error_names_message_version_field_and_position() -> None:
    with pytest.raises(ProtocolError, match="FetchRequest v18 field min_bytes: needs 4 bytes at position 4, 2 remain"):
        read(FETCH_REQUEST, 18, bytes(6))
    raw = write(VOTE_REQUEST, 2, {"topics": [{"topic_name": "t", "partitions": [{}]}]})
    what = r"VoteRequest v2 field topics\[\].partitions: 1 elements of at least 58 bytes at position 9, 10 bytes remain"
    with pytest.raises(ProtocolError, match=what):
        read(VOTE_REQUEST, 2, raw[: raw.index(b"\2t\2") + 3 + 10])


def test_unknown_tags_are_kept_among_known_ones() -> None:
    raw = write(SAMPLE, 2, {**FULL, "mark": 1, "leader": {"id": 3}, UNKNOWN_TAGS: {1: b"one", 3: b"", 900: b"x" * 300}})
    body, _ = read(SAMPLE, 2, raw)
    assert body[UNKNOWN_TAGS] == {1: b"one", 3: b"", 900: b"x" * 300}
    assert body["leader"] == {"id": 3, "epoch": 5}
    assert write(SAMPLE, 2, body) == raw


def test_a_known_tag_whose_size_lies_is_refused() -> None:
    raw = bytes.fromhex("00 00 01 00 0000000000000009 00000004 00  01 00 05 00000008 00")
    with pytest.raises(ProtocolError, match="Sample v1: tag 0 ends at position 25, its value at 24"):
        read(SAMPLE, 1, raw)


def test_a_version_that_does_not_exist_is_our_bug() -> None:
    with pytest.raises(AssertionError, match="VoteRequest has no version 3"):
        compile_reader(VOTE_REQUEST, 3)


@pytest.mark.no_cover  # it would take twice as long, and other tests reach the same
@pytest.mark.parametrize(("message", "version"), ALL_MESSAGES, ids=message_id)
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_what_is_written_is_read(message: schema.Message, version: int, data: st.DataObject) -> None:
    body = data.draw(bodies(message, version))
    raw = write(message, version, body)
    found, position = read(message, version, raw)
    assert (found, position) == (body, len(raw))
    assert write(message, version, found) == raw


@pytest.mark.parametrize(("message", "version"), ALL_MESSAGES, ids=message_id)
@settings(max_examples=3, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_every_cut_is_refused(message: schema.Message, version: int, data: st.DataObject) -> None:
    raw = write(message, version, data.draw(bodies(message, version)))
    reader = compile_reader(message, version)
    for end in range(min(len(raw), 400)):
        with pytest.raises(ProtocolError):
            reader(raw, 0, end)


@pytest.mark.parametrize(("message", "version"), ALL_MESSAGES, ids=message_id)
def test_garbage_raises_nothing_but_protocol_errors(message: schema.Message, version: int) -> None:
    generator = random.Random(f"{message.name} {version}")
    reader = compile_reader(message, version)
    for _ in range(200):
        raw = generator.randbytes(generator.randrange(120))
        raw = bytes(byte if generator.random() < 0.5 else byte & 3 for byte in raw)  # small counts lead further in
        try:
            _, position = reader(raw, 0, len(raw))
        except ProtocolError:
            continue
        assert position <= len(raw)


@pytest.mark.parametrize(("message", "version"), ALL_MESSAGES, ids=message_id)
def test_absurd_counts_allocate_nothing(message: schema.Message, version: int) -> None:
    raw = write(
        message,
        version,
        {
            one.name: [{}, {}]
            for one in message.body.fields
            if one.name in ("topics", "responses") and version in one.present
        },
    )
    raw += bytes(40)
    absurd = b"\xff\xff\xff\xff\x0f" if version in message.flexible else b"\x7f\xff\xff\xff"
    reader = compile_reader(message, version)

    def read() -> None:
        with contextlib.suppress(ProtocolError):
            reader(changed, 0, len(changed))

    for position in range(len(raw) - len(absurd)):
        changed = raw[:position] + absurd + raw[position + len(absurd) :]
        taking_less_than(256 * 1024, read)


@pytest.mark.parametrize("raw", [b"\xff\xff", b"\xff\xff\xff\xff\xff\xff"], ids=["rows", "numbers"])
def test_a_count_beyond_the_frame_builds_not_even_what_the_frame_holds(raw: bytes) -> None:
    frame = raw + (100_000).to_bytes(4, "big") + bytes(300_000)
    reader = compile_reader(SAMPLE, 0)

    def read() -> None:
        with pytest.raises(ProtocolError, match="100000 elements"):
            reader(frame, 0, len(frame))

    taking_less_than(64 * 1024, read)


def test_an_array_of_too_many_elements_is_refused_before_the_first_is_made() -> None:
    topics = [{"topic_name": "t", "partitions": [{}]}]
    raw = write(VOTE_REQUEST, 2, {"topics": topics * 2})
    with pytest.raises(TooManyElementsError, match=r"VoteRequest v2 field topics: 2 elements .*, at most 1"):
        read(VOTE_REQUEST, 2, raw[: raw.index(b"\3") + 1] + b"\xff" * 1_000)
    raw = write(VOTE_REQUEST, 2, {"topics": [{"topic_name": "t", "partitions": [{}, {}]}]})
    with pytest.raises(TooManyElementsError, match=r"topics\[\].partitions: 2 elements .*, at most 1"):
        read(VOTE_REQUEST, 2, raw)
    raw = write(END_QUORUM_EPOCH_REQUEST, 0, {"topics": [{"partitions": [{"preferred_successors": [0] * 101}]}]})
    with pytest.raises(TooManyElementsError, match=r"preferred_successors: 101 elements .*, at most 100"):
        read(END_QUORUM_EPOCH_REQUEST, 0, raw)


def test_no_array_has_more_than_a_million_elements() -> None:
    message = schema.Message.of("M", "0", "0+", schema.Field("flags", schema.Array(schema.BOOL)))
    frame = b"\xc1\x84\x3d" + bytes(schema.ARRAY_COUNT_MAX + 1)  # the compact count of a million
    assert len(read(message, 0, frame)[0]["flags"]) == schema.ARRAY_COUNT_MAX
    with pytest.raises(TooManyElementsError, match=r"M v0 field flags: 1000001 elements .*, at most 1000000"):
        read(message, 0, b"\xc2\x84\x3d" + bytes(schema.ARRAY_COUNT_MAX + 2))


WIDE = schema.Message.of(
    "Wide",
    "0-1",
    "1+",
    schema.Field("names", schema.Array(schema.STRING)),
    schema.Field("ids", schema.Array(schema.UUID), nullable=True),
    schema.Field("salt", schema.BYTES, nullable=True),
    schema.Field("share", schema.FLOAT64),
)


@pytest.mark.parametrize("version", [0, 1])
@given(data=st.data())
def test_arrays_of_strings_and_of_uuids_and_bytes_and_floats(version: int, data: st.DataObject) -> None:
    body = data.draw(bodies(WIDE, version))
    raw = write(WIDE, version, body)
    assert read(WIDE, version, bytearray(raw)) == (body, len(raw))
    for end in range(len(raw)):
        with pytest.raises(ProtocolError, match=f"Wide v{version}"):
            read(WIDE, version, raw[:end])


def test_bytes_outlive_their_frame() -> None:
    frame = bytearray(write(WIDE, 1, {"names": [], "ids": [bytes(16)], "salt": b"abc"}))
    body, _ = read(WIDE, 1, frame)
    frame[:] = bytes(len(frame))
    assert (body["salt"], type(body["salt"]), type(body["ids"][0])) == (b"abc", bytes, bytes)


def test_a_null_in_an_array_of_strings_is_refused() -> None:
    with pytest.raises(ProtocolError, match="Wide v1 field names: a string before position 2 has the length -1"):
        read(WIDE, 1, b"\2\0" + bytes(20))


def test_unknown_tags_are_passed_over_when_nobody_wants_them() -> None:
    raw = write(SAMPLE, 2, {**FULL, "mark": 1, "leader": {"id": 3}, UNKNOWN_TAGS: {1: b"one", 3: b"", 900: b"x" * 300}})
    body, end = compile_reader(SAMPLE, 2, keeps_unknown_tags=False)(raw, 0, len(raw))
    assert end == len(raw)
    assert body == read(SAMPLE, 2, write(SAMPLE, 2, {**FULL, "mark": 1, "leader": {"id": 3}}))[0]
    raw = write(VOTE_REQUEST, 2, {"topics": [], UNKNOWN_TAGS: {3: b"three"}})
    body, end = compile_reader(VOTE_REQUEST, 2, keeps_unknown_tags=False)(raw, 0, len(raw))
    assert end == len(raw)
    assert body == read(VOTE_REQUEST, 2, write(VOTE_REQUEST, 2, {"topics": []}))[0]

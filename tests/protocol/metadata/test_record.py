"""Metadata records: every type in every version, every cut, what is unknown, and random bytes.

Source: KIP-631; Kafka's ``AbstractApiMessageSerde``.
"""

from __future__ import annotations

import contextlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.metadata import record
from pykraft.protocol.metadata.record import MetadataRecord, read_metadata_record
from pykraft.protocol.metadata.tables import TABLES
from pykraft.protocol.primitives import UNKNOWN_TAGS
from tests.memory import taking_less_than
from tests.protocol.bodies import bodies
from tests.protocol.metadata.records import ALL, NUMBERS, encoded, full_body

BAD = {
    "no value": (None, "it has no value"),
    "nothing": (b"", "frame version: needs 1 bytes"),
    "another frame": (b"\0\2\0", "its frame has version 0, not 1"),
    "no type": (b"\1", "type: needs 1 bytes"),
    "a type of the future": (b"\1\x63\0", "Kafka 4.4.0 has no type 99"),
    "a type that was never used": (b"\1\6\0", "Kafka 4.4.0 has no type 6"),
    "a version of the future": (b"\1\2\5", "TOPIC_RECORD has version 5; Kafka 4.4.0 has none above 0"),
    "a body that is cut": (b"\1\2\0\5ab", "TopicRecord v0 field name: needs 4 bytes"),
    "more than a body": (b"\1\x14\0\0\7\7", "2 bytes follow its NO_OP_RECORD"),
    "a number that is too large": (b"\1" + b"\xff" * 6, "the varint at position 1 does not fit"),
}


@pytest.mark.parametrize(("name", "version"), ALL)
@given(data=st.data())
def test_every_version_of_every_type_is_read_as_it_was_written(name: str, version: int, data: st.DataObject) -> None:
    body = data.draw(bodies(TABLES[NUMBERS[name]], version, unknown_tags=False))
    found = read_metadata_record(encoded(name, version, body))
    assert found == MetadataRecord(NUMBERS[name], version, body)
    assert (found.type, found.json()["type"], found.json()["version"]) == (name, name, version)


@pytest.mark.parametrize(("name", "version"), ALL)
def test_every_cut_is_an_error_and_every_field_is_shown(name: str, version: int) -> None:
    raw = encoded(name, version, full_body(name, version))
    for end in range(len(raw)):
        with pytest.raises(ProtocolError) as error:
            read_metadata_record(memoryview(raw)[:end])
        assert error.value.code is ErrorCode.INVALID_RECORD
    table = TABLES[NUMBERS[name]]
    assert len(read_metadata_record(raw).json()["data"]) == sum(version in one.present for one in table.body.fields)


@pytest.mark.parametrize(("value", "words"), BAD.values(), ids=BAD)
def test_what_cannot_be_read_says_why(value: bytes | None, words: str) -> None:
    with pytest.raises(ProtocolError, match=f"^not a metadata record that can be read: .*{words}") as error:
        read_metadata_record(value)
    assert error.value.code is ErrorCode.INVALID_RECORD


def test_tagged_fields_of_the_future_are_passed_over() -> None:
    raw = encoded("TOPIC_RECORD", 0, {"name": "a", UNKNOWN_TAGS: {7: b"new"}})
    assert read_metadata_record(raw).json()["data"] == {"name": "a", "topicId": "A" * 22}


def test_a_huge_value_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "VALUE_SIZE_BYTES_MAX", 4)
    assert read_metadata_record(b"\1\x14\0\0").type == "NO_OP_RECORD"
    with pytest.raises(ProtocolError, match="it has 5 bytes, more than 4"):
        read_metadata_record(bytes(5))


def test_random_bytes_raise_nothing_else_and_cost_little() -> None:
    source = random.Random(11)

    def read() -> None:
        with contextlib.suppress(ProtocolError):
            read_metadata_record(raw)

    for _ in range(10_000):
        number = source.choice(list(TABLES))
        raw = bytes((1, number, source.randint(0, TABLES[number].versions.max)))
        raw += source.randbytes(source.choice((0, 1, 8, 40, 200)))
        taking_less_than(10_000_000, read)

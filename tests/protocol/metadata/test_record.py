"""Metadata records: every type in every version, every cut, what is unknown, and random bytes.

One line for people: what a field looks like, and which fields are masked.
"""

import contextlib
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol.metadata import record
from pykraft.protocol.metadata.record import MetadataRecord, one_line, read_metadata_record, without_secrets
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


def record_of(kind: str, /, **body: object) -> MetadataRecord:
    return read_metadata_record(encoded(kind, 0, body))


LINES = {
    "words": (record_of("TOPIC_RECORD", name="orders"), "TOPIC_RECORD name=orders topicId=AAAAAAAAAAAAAAAAAAAAAA"),
    "a text that needs quotes": (
        record_of("CLEAR_ELR_RECORD", topic_name='a "b" c'),
        'CLEAR_ELR_RECORD topicName="a \\"b\\" c"',
    ),
    "an empty text": (record_of("CLEAR_ELR_RECORD"), 'CLEAR_ELR_RECORD topicName=""'),
    "numbers and flags": (
        record_of("CLIENT_QUOTA_RECORD", entity=[{"entity_type": "user", "entity_name": None}], key="k", value=1.5),
        "CLIENT_QUOTA_RECORD entity=[user null] key=k value=1.5 remove=false",
    ),
    "lists": (
        record_of("PARTITION_CHANGE_RECORD", isr=[1, 2], adding_replicas=[]),
        "PARTITION_CHANGE_RECORD partitionId=-1 topicId=AAAAAAAAAAAAAAAAAAAAAA isr=[1, 2] addingReplicas=[]",
    ),
    "no fields": (record_of("END_TRANSACTION_RECORD"), "END_TRANSACTION_RECORD"),
    "null": (
        record_of("CONFIG_RECORD", resource_type=2, resource_name="t", name="retention.ms", value=None),
        "CONFIG_RECORD resourceType=2 resourceName=t name=retention.ms",
    ),
}


@pytest.mark.parametrize(("shown", "line"), LINES.values(), ids=LINES)
def test_a_record_is_one_line(shown: MetadataRecord, line: str) -> None:
    assert one_line(shown) == line


@pytest.mark.parametrize(("name", "version"), ALL)
def test_every_type_has_a_line_without_a_line_break(name: str, version: int) -> None:
    line = one_line(read_metadata_record(encoded(name, version, full_body(name, version))))
    assert line.startswith(name)
    assert "\n" not in line


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("ssl.key.password", True),
        ("listener.name.internal.plain.sasl.jaas.config", True),
        ("ssl.keystore.key", True),
        ("ssl.truststore.certificates", True),
        ("delegation.token.secret.key", True),
        ("sasl.oauthbearer.assertion.private.key.passphrase", True),
        ("min.insync.replicas", False),
        ("ssl.keystore.location", False),
        ("compression.type", False),
    ],
)
def test_a_secret_configuration_is_masked(name: str, is_secret: bool) -> None:
    shown = record_of("CONFIG_RECORD", resource_type=4, resource_name="1", name=name, value="hush")
    assert ("hush" in one_line(shown)) is not is_secret
    assert without_secrets(shown).body["value"] == ("***" if is_secret else "hush")
    assert shown.body["value"] == "hush"


def test_a_secret_that_is_deleted_shows_that() -> None:
    shown = record_of("CONFIG_RECORD", name="ssl.key.password", value=None)
    assert without_secrets(shown) is shown

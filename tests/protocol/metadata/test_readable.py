"""One line for people: what a field looks like, and which fields are masked.

Source: Kafka's ``RecordRedactor``.
"""

from __future__ import annotations

import pytest

from pykraft.protocol.metadata.readable import one_line, without_secrets
from pykraft.protocol.metadata.record import MetadataRecord, read_metadata_record
from tests.protocol.metadata.records import ALL, encoded, full_body


def record(kind: str, /, **body: object) -> MetadataRecord:
    return read_metadata_record(encoded(kind, 0, body))


LINES = {
    "words": (record("TOPIC_RECORD", name="orders"), "TOPIC_RECORD name=orders topicId=AAAAAAAAAAAAAAAAAAAAAA"),
    "a text that needs quotes": (
        record("CLEAR_ELR_RECORD", topic_name='a "b" c'),
        'CLEAR_ELR_RECORD topicName="a \\"b\\" c"',
    ),
    "an empty text": (record("CLEAR_ELR_RECORD"), 'CLEAR_ELR_RECORD topicName=""'),
    "numbers and flags": (
        record("CLIENT_QUOTA_RECORD", entity=[{"entity_type": "user", "entity_name": None}], key="k", value=1.5),
        "CLIENT_QUOTA_RECORD entity=[user null] key=k value=1.5 remove=false",
    ),
    "lists": (
        record("PARTITION_CHANGE_RECORD", isr=[1, 2], adding_replicas=[]),
        "PARTITION_CHANGE_RECORD partitionId=-1 topicId=AAAAAAAAAAAAAAAAAAAAAA isr=[1, 2] addingReplicas=[]",
    ),
    "no fields": (record("END_TRANSACTION_RECORD"), "END_TRANSACTION_RECORD"),
    "null": (
        record("CONFIG_RECORD", resource_type=2, resource_name="t", name="retention.ms", value=None),
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
    shown = record("CONFIG_RECORD", resource_type=4, resource_name="1", name=name, value="hush")
    assert ("hush" in one_line(shown)) is not is_secret
    assert without_secrets(shown).body["value"] == ("***" if is_secret else "hush")
    assert shown.body["value"] == "hush"


def test_a_secret_that_is_deleted_shows_that() -> None:
    shown = record("CONFIG_RECORD", name="ssl.key.password", value=None)
    assert without_secrets(shown) is shown

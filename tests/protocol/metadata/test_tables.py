"""The generated tables: what they were made from cannot be half understood, and each type has its name.

The stage `kafka` makes the tables again from the jar of a release.

Source: Kafka's ``MetadataRecordType``; the README of Kafka's message definitions.
"""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from pykraft.protocol.metadata.record import metadata_tables
from pykraft.protocol.metadata.tables import KAFKA_VERSION, TABLES
from tests.protocol.metadata.generate import UnknownDefinitionError, source_of


def jar_of(folder: Path, *fields: dict[str, Any], name: str = "kafka-metadata-9.9.9.jar", **properties: Any) -> Path:
    definition = {
        "apiKey": 3,
        "type": "metadata",
        "name": "OneRecord",
        "validVersions": "0-1",
        "flexibleVersions": "0+",
    }
    text = "// A license.\n" + json.dumps({**definition, "fields": fields, **properties})
    with zipfile.ZipFile(folder / name, "w") as archive:
        archive.writestr("common/metadata/OneRecord.json", text)
        archive.writestr("other/Two.json", "{")
    return folder / name


def test_all_types_of_the_release_are_there() -> None:
    assert KAFKA_VERSION == "4.4.0"
    assert len(TABLES) == 27
    assert metadata_tables()["ZK_MIGRATION_STATE_RECORD"] is TABLES[21]
    assert metadata_tables()["NO_OP_RECORD"] is TABLES[20]
    assert all(table.flexible.min == table.versions.min == 0 for table in TABLES.values())


def test_a_definition_becomes_a_table(tmp_path: Path) -> None:
    nested = {
        "name": "EndPoints",
        "type": "[]Point",
        "versions": "0+",
        "fields": [{"name": "X", "type": "float64", "versions": "0+"}],
    }
    isr = {
        "name": "Isr",
        "type": "[]int32",
        "versions": "1+",
        "nullableVersions": "1+",
        "taggedVersions": "1+",
        "tag": 4,
    }
    flag = {"name": "IsFenced", "type": "bool", "versions": "0+", "default": "true", "about": "It is."}
    text = {"name": "Why", "type": "string", "versions": "0+", "default": "so"}
    source = source_of(jar_of(tmp_path, nested, isr | {"default": "null"}, flag, text))
    assert 'KAFKA_VERSION: Final = "9.9.9"' in source
    for line in (
        'array_of("end_points", Field("x", FLOAT64), count_max=ELEMENTS_MAX),',
        'Field("isr", Array(INT32), versions="1+", default=None, nullable=True, tag=4),',
        'Field("is_fenced", BOOL, default=True),',
        'Field("why", STRING, default="so")',
    ):
        assert line in source
    assert "UUID" not in source


FIELD = {"name": "One", "type": "int32", "versions": "0+"}
UNKNOWN: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "a property of a field": ({"zeroCopy": True}, {}, r"one: unknown properties \['zeroCopy'\]"),
    "tagged later than there": ({"taggedVersions": "1+", "tag": 0}, {}, "one: taggedVersions differs"),
    "null later than there": ({"nullableVersions": "1+"}, {}, "one: nullableVersions differs"),
    "a name that JSON has otherwise": ({"name": "TopicID"}, {}, "topic_id is not the name that TopicID has"),
    "another kind of message": ({}, {"type": "request"}, "OneRecord: it is not a flexible metadata record"),
    "no version in the name": ({}, {"name": "metadata.jar"}, "its name does not say the version"),
}


@pytest.mark.parametrize(("of_field", "of_record", "words"), UNKNOWN.values(), ids=UNKNOWN)
def test_what_the_tables_cannot_say_is_an_error(
    tmp_path: Path, of_field: dict[str, Any], of_record: dict[str, Any], words: str
) -> None:
    jar = jar_of(tmp_path, FIELD | of_field, **of_record)
    with pytest.raises(UnknownDefinitionError, match=words):
        source_of(jar)

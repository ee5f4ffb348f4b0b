"""The vocabulary of the tables: versions, defaults, smallest sizes.

Source code of a function, written line by line.

JSON as Kafka's converters make it: names, order, what is left out, and values that JSON has no form for.

Source: Kafka's message definitions (clients ``common/message/*.json``) and their README; KIP-482; Kafka's
``JsonConverterGenerator``; Jackson's ``DoubleNode``.
"""

import math

import pytest

from pykraft.protocol import schema
from tests.protocol.bodies import read, write


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [("0", [0], [1]), ("0-14", [0, 14], [15]), ("7+", [7, 99], [6]), ("4-18", [4, 18], [3, 19])],
)
def test_versions_are_written_as_kafka_writes_them(text: str, inside: list[int], outside: list[int]) -> None:
    versions = schema.Versions.parse(text)
    assert all(version in versions for version in inside)
    assert not any(version in versions for version in outside)
    assert "7" not in versions


def test_versions_read_well_in_errors() -> None:
    assert str(schema.Versions.parse("4-18")) == "4-18"


def test_a_field_has_the_default_of_its_kind_unless_told() -> None:
    assert schema.Field("a", schema.INT32).default == 0
    assert schema.Field("a", schema.INT32, default=-1).default == -1
    assert schema.Field("a", schema.BOOL).default is False
    assert schema.Field("a", schema.STRING).default == ""
    assert schema.Field("a", schema.STRING, default=None, nullable=True).default is None
    assert schema.Field("a", schema.UUID).default == bytes(16)
    assert schema.Field("a", schema.RECORDS).default == b""
    assert schema.Field("a", schema.Array(schema.INT32)).default == []
    assert schema.struct_of(
        "a", schema.Field("x", schema.INT32, default=-1), schema.Field("y", schema.INT64)
    ).default == {"x": -1, "y": 0}


def test_none_is_no_default_of_a_field_that_is_not_nullable() -> None:
    with pytest.raises(AssertionError, match="name: None is not among its values"):
        schema.Field("name", schema.STRING, default=None)


def test_names_and_tags_are_unique_within_a_struct() -> None:
    with pytest.raises(AssertionError, match="name is used twice"):
        schema.Struct((schema.Field("a", schema.INT32), schema.Field("a", schema.INT64)))
    with pytest.raises(AssertionError, match="tag is used twice"):
        schema.Struct((schema.Field("a", schema.INT32, tag=0), schema.Field("b", schema.INT64, tag=0)))


def test_fields_of_a_version_tagged_ones_apart_and_in_tag_order() -> None:
    message = schema.Message.of(
        "M",
        "0-3",
        "1+",
        schema.Field("late", schema.INT32, "2+", tag=1),
        schema.Field("early", schema.INT32, "0-1"),
        schema.Field("always", schema.INT32),
        schema.Field("first", schema.INT32, "2+", tag=0),
    )
    assert [one.name for one in schema.fields_of(message.body, 1)] == ["early", "always"]
    assert [one.name for one in schema.fields_of(message.body, 2)] == ["always"]
    assert [one.name for one in schema.tagged_fields_of(message.body, 1)] == []
    assert [one.name for one in schema.tagged_fields_of(message.body, 2)] == ["first", "late"]


def test_the_least_size_counts_lengths_and_the_tag_count() -> None:
    field = schema.array_of(
        "a",
        schema.Field("s", schema.STRING),
        schema.Field("i", schema.INT16),
        schema.Field("r", schema.RECORDS),
        schema.Field("t", schema.INT64, tag=0),
    )
    assert isinstance(field.kind, schema.Array)
    assert schema.size_bytes_min(field.kind, 0, flexible=True) == 1
    assert schema.size_bytes_min(field.kind, 0, flexible=False) == 4
    assert schema.size_bytes_min(field.kind.of, 0, flexible=True) == 1 + 2 + 1 + 1
    assert schema.size_bytes_min(field.kind.of, 0, flexible=False) == 2 + 2 + 4
    assert schema.size_bytes_min(schema.UUID, 0, flexible=True) == 16


def test_a_field_may_be_null_from_a_version_on() -> None:
    field = schema.Field("a", schema.STRING, nullable=True, null_from=3)
    assert [field.may_be_null(version) for version in (2, 3)] == [False, True]
    assert not schema.Field("a", schema.STRING).may_be_null(3)


def test_lines_blocks_names_and_constants_become_a_function() -> None:
    source = schema.FunctionSource("double(values)")
    total = source.fresh()
    assert source.fresh() != total
    source.line(f"{total} = {source.constant(100)}")
    with source.block("for value in values:"):
        source.line(f"{total} += value * factor")
    source.line(f"return {total}")
    double = source.build("double", "test", {"factor": 2})
    assert double([1, 2, 3]) == 112


def test_a_traceback_names_the_origin() -> None:
    source = schema.FunctionSource("fail()")
    source.line("raise ValueError")
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the message is not the point)
        source.build("fail", "where it comes from", {})()
    assert caught.traceback[-1].frame.code.raw.co_filename == "<where it comes from>"


SAMPLE = schema.Message.of(
    "Sample",
    "0-1",
    "0+",
    schema.Field("topic_id", schema.UUID),
    schema.Field("last_known_elr", schema.Array(schema.INT32), "1+", default=None, nullable=True, tag=1),
    schema.Field("log_dirs", schema.Array(schema.UUID), tag=0),
    schema.Field("rack", schema.STRING, nullable=True),
    schema.Field("salt", schema.BYTES),
    schema.array_of("end_points", schema.Field("name", schema.STRING)),
    schema.struct_of("place", schema.Field("x", schema.FLOAT64)),
)


def shown(version: int, **body: object) -> dict[str, object]:
    found, _ = read(SAMPLE, version, write(SAMPLE, version, body))
    return schema.body_json(SAMPLE.body, found, version)


def test_tagged_fields_at_their_default_and_fields_of_other_versions_are_absent() -> None:
    least: dict[str, object] = {"topicId": "A" * 22, "rack": None, "salt": "", "endPoints": [], "place": {"x": 0.0}}
    assert shown(0, rack=None) == least
    assert shown(1, rack=None, last_known_elr=None, log_dirs=[]) == least
    assert "lastKnownElr" not in shown(0)


def test_values_have_kafkas_forms_and_the_order_of_the_table() -> None:
    found = shown(
        1,
        topic_id=bytes(15) + b"\1",
        last_known_elr=[],
        log_dirs=[bytes(16)],
        salt=b"\xff\xfe",
        end_points=[{"name": "C"}],
        place={"x": 1024.5},
    )
    assert list(found) == ["topicId", "lastKnownElr", "logDirs", "rack", "salt", "endPoints", "place"]
    assert found == {
        "topicId": "AAAAAAAAAAAAAAAAAAAAAQ",
        "lastKnownElr": [],
        "logDirs": ["A" * 22],
        "rack": "",
        "salt": "//4=",
        "endPoints": [{"name": "C"}],
        "place": {"x": 1024.5},
    }


@pytest.mark.parametrize(("number", "text"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity")])
def test_a_number_that_json_lacks_is_a_string(number: float, text: str) -> None:
    assert shown(0, place={"x": number})["place"] == {"x": text}


@pytest.mark.parametrize(
    ("ours", "kafkas"), [("isr", "isr"), ("end_points", "endPoints"), ("last_known_elr", "lastKnownElr")]
)
def test_names_go_both_ways(ours: str, kafkas: str) -> None:
    assert schema.camel_case(ours) == kafkas
    assert schema.snake_case(kafkas) == ours

"""JSON as Kafka's converters make it: names, order, what is left out, and values that JSON has no form for.

Source: Kafka's ``JsonConverterGenerator``; Jackson's ``DoubleNode``.
"""

from __future__ import annotations

import math

import pytest

from pykraft.protocol.json_form import body_json, camel_case, snake_case
from pykraft.protocol.schema import (
    BYTES,
    FLOAT64,
    INT32,
    STRING,
    UUID,
    Array,
    Field,
    Message,
    array_of,
    struct_of,
)
from tests.protocol.bodies import read, write

SAMPLE = Message.of(
    "Sample",
    "0-1",
    "0+",
    Field("topic_id", UUID),
    Field("last_known_elr", Array(INT32), "1+", default=None, nullable=True, tag=1),
    Field("log_dirs", Array(UUID), tag=0),
    Field("rack", STRING, nullable=True),
    Field("salt", BYTES),
    array_of("end_points", Field("name", STRING)),
    struct_of("place", Field("x", FLOAT64)),
)


def shown(version: int, **body: object) -> dict[str, object]:
    found, _ = read(SAMPLE, version, write(SAMPLE, version, body))
    return body_json(SAMPLE.body, found, version)


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
    assert camel_case(ours) == kafkas
    assert snake_case(kafkas) == ours

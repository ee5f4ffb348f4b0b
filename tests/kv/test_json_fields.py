"""Fields of a JSON object: each wrong one is refused by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pykraft.errors import UsageError
from pykraft.kv.json_fields import JsonFields, parse_object


def test_fields_are_read_once_and_null_is_absent() -> None:
    fields = parse_object(b'{"a": "text", "b": 3, "c": true, "d": [1], "e": null, "f": null}')
    assert (fields.text("a"), fields.whole("b"), fields.flag("c"), fields.array("d", most=1)) == ("text", 3, True, [1])
    assert (fields.text_or_none("e"), fields.whole_or_none("f"), fields.whole("g", default=7)) == (None, None, 7)
    assert (fields.flag("h"), fields.array("i", most=1)) == (False, [])
    fields.end()
    parse_object(b"").end()


@pytest.mark.parametrize("data", [b"{", b"\xff", b"[1", b"[" * 100_000, b'{"a": %s}' % (b"9" * 5_000)])
def test_what_is_not_json_is_refused(data: bytes) -> None:
    with pytest.raises(UsageError, match="the body is not JSON in UTF-8"):
        parse_object(data)


@pytest.mark.parametrize(
    ("data", "read", "told"),
    [
        (b"[]", lambda fields: fields, "the body: must be a JSON object"),
        (b"{}", lambda fields: fields.text("key"), "the body: key is missing"),
        (b'{"key": 1}', lambda fields: fields.text("key"), "the body: key must be text"),
        (b"{}", lambda fields: fields.whole("n", most=9), "n is missing: a whole number from 0 to 9"),
        (b'{"n": 1.5}', lambda fields: fields.whole("n"), "n = 1.5"),
        (b'{"n": true}', lambda fields: fields.whole("n"), "n = True"),
        (b'{"n": 10}', lambda fields: fields.whole("n", most=9), "from 0 to 9"),
        (b'{"stale": 1}', lambda fields: fields.flag("stale"), "stale must be true or false"),
        (b'{"then": {}}', lambda fields: fields.array("then", most=2), "then must be a list of at most 2"),
        (b'{"then": [1, 2, 3]}', lambda fields: fields.array("then", most=2), "then must be a list of at most 2"),
    ],
)
def test_a_wrong_field_is_named(data: bytes, read: Callable[[JsonFields], Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        read(parse_object(data))


def test_an_unknown_field_is_refused_with_those_that_there_are() -> None:
    fields = parse_object(b'{"keys": 1}')
    fields.take("key")
    fields.take("end")
    with pytest.raises(UsageError) as caught:
        fields.end()
    assert str(caught.value) == "the body: there is no field 'keys': it may have key, end; did you mean key?"

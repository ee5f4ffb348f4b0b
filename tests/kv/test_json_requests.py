"""Ranges, operations and conditions from JSON, and one message for each kind of wrong one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from pykraft.errors import UsageError
from pykraft.kv.json_answers import stored_value
from pykraft.kv.json_requests import JsonFields, parse_object, read_put, read_range, read_transaction
from pykraft.recipes import Condition, Delete, Get, Put, Transaction


def fields(**content: Any) -> Any:
    return parse_object(json.dumps(content).encode())


def test_a_range_is_a_key_or_a_pair_or_a_prefix() -> None:
    assert read_range(fields(key="a")) == ("a", None)
    assert read_range(fields(key="a", end="")) == ("a", "")
    assert read_range(fields(prefix="a/")) == ("a/", "a0")
    for wrong in ({}, {"end": "b"}, {"key": "a", "prefix": "a"}, {"prefix": "a", "end": "b"}):
        with pytest.raises(UsageError, match="give key, or key and end for a range, or prefix"):
            read_range(fields(**wrong))


def test_a_put_has_text_or_bytes() -> None:
    assert read_put(fields(key="a", value="b")) == Put("a", "b")
    assert read_put(fields(key="a", base64="/w==", lease=3, numbered=True)) == Put("a", stored_value(b"\xff"), 3, True)
    for wrong in ({"key": "a"}, {"key": "a", "value": "", "base64": ""}):
        with pytest.raises(UsageError, match=r"give value \(text\) or base64"):
            read_put(fields(**wrong))


def test_a_transaction_has_conditions_and_operations() -> None:
    wanted = fields(
        **{
            "if": [{"key": "a", "to": "b"}, {"key": "a", "field": "version", "is": ">", "to": 3}, {"key": "a"}],
            "then": [{"put": {"key": "a", "value": "c"}}, {"get": {"prefix": "x", "limit": 5}}],
            "else": [{"delete": {"key": "a", "end": ""}}, {"get": {"key": "a"}}],
        }
    )
    assert read_transaction(wanted) == Transaction(
        (Put("a", "c"), Get("x", "y", 5)),
        (Condition("a", "value", "==", "b"), Condition("a", "version", ">", 3), Condition("a", "value", "==", None)),
        (Delete("a", ""), Get("a", None, 100)),
    )
    binary = read_transaction(fields(**{"if": [{"key": "a", "base64": "/w=="}]}))
    assert binary.conditions == (Condition("a", "value", "==", stored_value(b"\xff")),)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"then": [{}]}, "an operation is"),
        ({"then": ["get"]}, "an operation is"),
        ({"then": [{"get": {}, "put": {}}]}, "an operation is"),
        ({"then": [{"inc": {}}]}, "'inc' is not an operation: give get, put or delete"),
        ({"then": [{"get": {"key": "a", "limt": 1}}]}, "'get': there is no field 'limt'.*did you mean limit"),
        ({"then": [{"get": 1}]}, "'get': must be a JSON object"),
        ({"then": [{"get": {"key": "a", "limit": 0}}]}, "limit = 0"),
        ({"if": [1]}, "a condition: must be a JSON object"),
        ({"if": [{"key": "a", "field": "size"}]}, "field = 'size': give one of value, created"),
        ({"if": [{"key": "a", "is": "<="}]}, "is = '<=': give one of ==, !=, <, >"),
        ({"if": [{"key": "a", "to": "b", "base64": "YQ=="}]}, "give to .* or base64"),
        ({"if": [{"key": "a"}] * 129}, "if must be a list of at most 128"),
    ],
)
def test_a_wrong_transaction_is_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        read_transaction(fields(**wrong))


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

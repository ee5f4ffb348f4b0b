"""Requests from JSON, with one message for each wrong one; errors say what happened to the change."""

import base64
import json
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft import errors
from pykraft.kv import json_form
from pykraft.machine import Applied
from pykraft.recipes import (
    Condition,
    Delete,
    Get,
    Item,
    KeyChange,
    KeyValues,
    Put,
    Transaction,
    TransactionResult,
    value_of,
)
from pykraft.recipes.key_value_commands import KeepLease
from pykraft.types import Epoch, Offset


@pytest.mark.parametrize(
    ("error", "status", "code", "outcome"),
    [
        (errors.UsageError("x"), 400, "invalid", "not applied"),
        (json_form.RequestRefusedError(HTTPStatus.NOT_FOUND, "no_such_path", "x"), 404, "no_such_path", "not applied"),
        (errors.CommandRejectedError("x"), 409, "rejected", "not applied"),
        (errors.BufferFullError("x"), 503, "busy", "not applied"),
        (errors.NotRunningError("x"), 503, "not_running", "not applied"),
        (errors.NotAppliedError("x"), 503, "not_applied", "not applied"),
        (errors.QuorumUnavailableError("x"), 503, "no_leader", "not applied"),
        (errors.OutcomeUnknownError("x"), 504, "unknown", "unknown"),
        (errors.RefusedError("it", 42, None), 500, "failed", "unknown"),
        (RuntimeError("x"), 500, "failed", "unknown"),
    ],
)
def test_each_error_has_a_status_a_code_and_an_outcome(error: Exception, status: int, code: str, outcome: str) -> None:
    failure = json_form.failure_of(error)
    assert (failure.status, failure.code, failure.outcome) == (status, code, outcome)
    assert failure.is_bug == (type(error) is RuntimeError)
    assert (failure.headers == (b"retry-after: 1",)) == (status == 503)
    told = failure.as_json()["error"]
    assert told["code"] == code
    assert told["message"] == ("a bug; the node's log has it" if failure.is_bug else str(error))


def test_a_compacted_revision_names_the_oldest_one() -> None:
    failure = json_form.failure_of(errors.CompactedError(3, 8))
    assert failure.status == HTTPStatus.GONE
    assert failure.as_json()["error"]["oldest_revision"] == 8


@pytest.mark.parametrize("command", [KeepLease(7), Transaction((Put("a", "b", 7),))])
def test_a_lease_that_has_ended_has_a_code_of_its_own(command: Transaction | KeepLease) -> None:
    with pytest.raises(errors.CommandRejectedError) as caught:
        KeyValues().apply(command, Applied(Offset(1), Epoch(1), 0, 0))
    assert json_form.failure_of(caught.value).code == "lease_ended"


def test_items_changes_and_results() -> None:
    item = Item("a", "b", 1, 2, 3, 4)
    told = {"key": "a", "value": "b", "created": 1, "modified": 2, "version": 3, "lease": 4}
    assert json_form.item_json(item) == told
    assert json_form.change_json(KeyChange(2, "a", item)) == {"revision": 2, "key": "a", "item": told}
    assert json_form.change_json(KeyChange(3, "a", None)) == {"revision": 3, "key": "a", "item": None}
    result = TransactionResult(True, 2, ((item,), ()), 5)
    assert json_form.result_json(result) == {"succeeded": True, "revision": 2, "found": [[told], []], "deleted": 5}


@given(st.binary() | st.text().map(str.encode))
def test_bytes_come_back_and_have_one_form(data: bytes) -> None:
    value = json_form.stored_base64(base64.b64encode(data).decode())
    assert value == value_of(data)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        assert json_form.value_json(value) == {"base64": base64.b64encode(data).decode()}
    else:
        assert json_form.value_json(text) == json_form.value_json(value) == {"value": text}


@pytest.mark.parametrize("text", ["a", "a===", "ü", "YQ", "Y Q=="])
def test_what_is_not_base64_is_refused(text: str) -> None:
    with pytest.raises(errors.UsageError, match=r"base64 = .*: must be base64 with its padding"):
        json_form.stored_base64(text)


def fields(**content: Any) -> Any:
    return json_form.parse_object(json.dumps(content).encode())


def test_a_range_is_a_key_or_a_pair_or_a_prefix() -> None:
    assert json_form.read_range(fields(key="a")) == ("a", None)
    assert json_form.read_range(fields(key="a", end="")) == ("a", "")
    assert json_form.read_range(fields(prefix="a/")) == ("a/", "a0")
    for wrong in ({}, {"end": "b"}, {"key": "a", "prefix": "a"}, {"prefix": "a", "end": "b"}):
        with pytest.raises(errors.UsageError, match="give key, or key and end for a range, or prefix"):
            json_form.read_range(fields(**wrong))


def test_a_put_has_text_or_bytes() -> None:
    assert json_form.read_put(fields(key="a", value="b")) == Put("a", "b")
    assert json_form.read_put(fields(key="a", base64="/w==", lease=3, numbered=True)) == Put(
        "a", value_of(b"\xff"), 3, True
    )
    for wrong in ({"key": "a"}, {"key": "a", "value": "", "base64": ""}):
        with pytest.raises(errors.UsageError, match=r"give value \(text\) or base64"):
            json_form.read_put(fields(**wrong))


def test_a_transaction_has_conditions_and_operations() -> None:
    wanted = fields(
        **{
            "if": [{"key": "a", "to": "b"}, {"key": "a", "field": "version", "is": ">", "to": 3}, {"key": "a"}],
            "then": [{"put": {"key": "a", "value": "c"}}, {"get": {"prefix": "x", "limit": 5}}],
            "else": [{"delete": {"key": "a", "end": ""}}, {"get": {"key": "a"}}],
        }
    )
    assert json_form.read_transaction(wanted) == Transaction(
        (Put("a", "c"), Get("x", "y", 5)),
        (Condition("a", "value", "==", "b"), Condition("a", "version", ">", 3), Condition("a", "value", "==", None)),
        (Delete("a", ""), Get("a", None, 100)),
    )
    binary = json_form.read_transaction(fields(**{"if": [{"key": "a", "base64": "/w=="}]}))
    assert binary.conditions == (Condition("a", "value", "==", value_of(b"\xff")),)


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
    with pytest.raises(errors.UsageError, match=told):
        json_form.read_transaction(fields(**wrong))


def test_fields_are_read_once_and_null_is_absent() -> None:
    fields = json_form.parse_object(b'{"a": "text", "b": 3, "c": true, "d": [1], "e": null, "f": null}')
    assert (fields.text("a"), fields.whole("b"), fields.flag("c"), fields.array("d", most=1)) == ("text", 3, True, [1])
    assert (fields.text_or_none("e"), fields.whole_or_none("f"), fields.whole("g", default=7)) == (None, None, 7)
    assert (fields.flag("h"), fields.array("i", most=1)) == (False, [])
    fields.end()
    json_form.parse_object(b"").end()


@pytest.mark.parametrize("data", [b"{", b"\xff", b"[1", b"[" * 100_000, b'{"a": %s}' % (b"9" * 5_000)])
def test_what_is_not_json_is_refused(data: bytes) -> None:
    with pytest.raises(errors.UsageError, match="the body is not JSON in UTF-8"):
        json_form.parse_object(data)


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
def test_a_wrong_field_is_named(data: bytes, read: Callable[[json_form.JsonFields], Any], told: str) -> None:
    with pytest.raises(errors.UsageError, match=told):
        read(json_form.parse_object(data))


def test_an_unknown_field_is_refused_with_those_that_there_are() -> None:
    fields = json_form.parse_object(b'{"keys": 1}')
    fields.take("key")
    fields.take("end")
    with pytest.raises(errors.UsageError) as caught:
        fields.end()
    assert str(caught.value) == "the body: there is no field 'keys': it may have key, end; did you mean key?"

"""Errors as JSON say what has happened to the change; values come back as they were put."""

from __future__ import annotations

import base64
from http import HTTPStatus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.errors import (
    BufferFullError,
    CommandRejectedError,
    CompactedError,
    NotAppliedError,
    NotRunningError,
    OutcomeUnknownError,
    QuorumUnavailableError,
    RefusedError,
    UsageError,
)
from pykraft.kv.json_answers import (
    BINARY_MARK,
    RequestRefusedError,
    change_json,
    failure_of,
    item_json,
    result_json,
    stored_base64,
    stored_text,
    stored_value,
    value_bytes,
    value_json,
)
from pykraft.machine import Applied
from pykraft.recipes import Item, KeyChange, KeyValues, Put, Transaction, TransactionResult
from pykraft.recipes.key_value_commands import KeepLease
from pykraft.types import Epoch, Offset


@pytest.mark.parametrize(
    ("error", "status", "code", "outcome"),
    [
        (UsageError("x"), 400, "invalid", "not applied"),
        (RequestRefusedError(HTTPStatus.NOT_FOUND, "no_such_path", "x"), 404, "no_such_path", "not applied"),
        (CommandRejectedError("x"), 409, "rejected", "not applied"),
        (BufferFullError("x"), 503, "busy", "not applied"),
        (NotRunningError("x"), 503, "not_running", "not applied"),
        (NotAppliedError("x"), 503, "not_applied", "not applied"),
        (QuorumUnavailableError("x"), 503, "no_leader", "not applied"),
        (OutcomeUnknownError("x"), 504, "unknown", "unknown"),
        (RefusedError("it", 42, None), 500, "failed", "unknown"),
        (RuntimeError("x"), 500, "failed", "unknown"),
    ],
)
def test_each_error_has_a_status_a_code_and_an_outcome(error: Exception, status: int, code: str, outcome: str) -> None:
    failure = failure_of(error)
    assert (failure.status, failure.code, failure.outcome) == (status, code, outcome)
    assert failure.is_bug == (type(error) is RuntimeError)
    assert (failure.headers == (b"retry-after: 1",)) == (status == 503)
    told = failure.as_json()["error"]
    assert told["code"] == code
    assert told["message"] == ("a bug; the node's log has it" if failure.is_bug else str(error))


def test_a_compacted_revision_names_the_oldest_one() -> None:
    failure = failure_of(CompactedError(3, 8))
    assert failure.status == HTTPStatus.GONE
    assert failure.as_json()["error"]["oldest_revision"] == 8


@pytest.mark.parametrize("command", [KeepLease(7), Transaction((Put("a", "b", 7),))])
def test_a_lease_that_has_ended_has_a_code_of_its_own(command: Transaction | KeepLease) -> None:
    with pytest.raises(CommandRejectedError) as caught:
        KeyValues().apply(command, Applied(Offset(1), Epoch(1), 0, 0))
    assert failure_of(caught.value).code == "lease_ended"


def test_items_changes_and_results() -> None:
    item = Item("a", "b", 1, 2, 3, 4)
    told = {"key": "a", "value": "b", "created": 1, "modified": 2, "version": 3, "lease": 4}
    assert item_json(item) == told
    assert change_json(KeyChange(2, "a", item)) == {"revision": 2, "key": "a", "item": told}
    assert change_json(KeyChange(3, "a", None)) == {"revision": 3, "key": "a", "item": None}
    result = TransactionResult(True, 2, ((item,), ()), 5)
    assert result_json(result) == {"succeeded": True, "revision": 2, "found": [[told], []], "deleted": 5}


@given(st.binary() | st.text().map(str.encode) | st.text().map(lambda text: (BINARY_MARK + text).encode()))
def test_bytes_come_back_and_have_one_form(data: bytes) -> None:
    stored = stored_value(data)
    stored.encode()  # it is text that the store takes
    assert value_bytes(stored) == data
    assert stored_base64(base64.b64encode(data).decode()) == stored
    try:
        text = data.decode()
    except UnicodeDecodeError:
        assert value_json(stored) == {"base64": base64.b64encode(data).decode()}
    else:
        assert stored_text(text) == stored
        assert value_json(stored) == {"value": text}


def test_plain_text_is_kept_as_it_is_and_so_is_what_a_program_put() -> None:
    assert stored_value("rød".encode()) == "rød"
    assert value_json(BINARY_MARK + "no base64") == {"value": BINARY_MARK + "no base64"}


@pytest.mark.parametrize("text", ["a", "a===", "ü", "YQ", "Y Q=="])
def test_what_is_not_base64_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"base64 = .*: must be base64 with its padding"):
        stored_base64(text)

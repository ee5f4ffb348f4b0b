"""The key-value store as JSON: requests, items, changes and errors, each with its HTTP status and what has happened.

Sizes and limits are checked where commands are made, see `pykraft.recipes.key_value_commands.check_command`.
Invariants: a wrong, unknown or missing field is refused by its name. ``outcome`` is "not applied" only if nothing was
changed and nothing will be; "unknown" if a change may have been made, or may still be. What was put comes back as the
same bytes, as text if they are UTF-8 and else in base64.

Source: ours (ADR 085); RFC 9110 §15; RFC 4648 §4; RFC 8259.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, cast

from pykraft import errors
from pykraft.client.arguments import INT64_MAX, whole_number
from pykraft.recipes import (
    Condition,
    Delete,
    Get,
    Item,
    KeyChange,
    Put,
    Transaction,
    TransactionResult,
    prefix,
    value_of,
)
from pykraft.recipes.key_value_commands import (
    GET_LIMIT_MAX,
    OPERATIONS_MAX,
    VALUE_SIZE_BYTES_MAX,
    ItemField,
    StoreOperation,
    check_text,
    value_bytes,
)
from pykraft.text.words import did_you_mean


def stored_base64(text: str) -> str:
    """The value for bytes in base64. Errors: UsageError for what is not base64."""
    try:
        return value_of(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError) as error:
        raise errors.UsageError(f"base64 = {text!r:.100}: must be base64 with its padding ({error})") from error


def value_json(value: str) -> dict[str, Any]:
    """``{"value": text}``, or ``{"base64": text}`` for bytes that are not UTF-8."""
    data = value_bytes(value)
    try:
        return {"value": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


NOT_APPLIED: Final = "not applied"
UNKNOWN: Final = "unknown"
RETRY_SOON: Final = (b"retry-after: 1",)
_LEASE_HAS_ENDED: Final = re.compile(r"lease \d+ has ended, or never was")


class RequestRefusedError(errors.PykraftError):
    """A request that HTTP has a status of its own for: no such path, too large, too slow."""

    def __init__(self, status: HTTPStatus, code: str, message: str, *headers: bytes) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = headers


@dataclass(frozen=True, slots=True)
class ApiFailure:
    """What a client hears of an error: also ``headers`` of the answer; ``is_bug`` is for the log."""

    status: HTTPStatus
    code: str
    message: str
    outcome: str = NOT_APPLIED
    more: dict[str, Any] = field(default_factory=dict)
    headers: tuple[bytes, ...] = ()
    is_bug: bool = False

    def as_json(self) -> dict[str, Any]:
        return {"error": {"code": self.code, "outcome": self.outcome, "message": self.message, **self.more}}


def failure_of(error: Exception) -> ApiFailure:
    """The answer for an error; the most specific class is matched first."""
    told = str(error)
    match error:
        case RequestRefusedError():
            return ApiFailure(error.status, error.code, told, headers=error.headers)
        case errors.CompactedError():
            return ApiFailure(HTTPStatus.GONE, "compacted", told, more={"oldest_revision": error.oldest_revision})
        case errors.NotRunningError():
            return _passing("not_running", told)
        case errors.BufferFullError():
            return _passing("busy", told)
        case errors.UsageError():
            return ApiFailure(HTTPStatus.BAD_REQUEST, "invalid", told)
        case errors.NotAppliedError():
            return _passing("not_applied", told)
        case errors.QuorumUnavailableError():
            return _passing("no_leader", told)
        case errors.CommandRejectedError():
            return ApiFailure(
                HTTPStatus.CONFLICT, "lease_ended" if _LEASE_HAS_ENDED.fullmatch(told) else "rejected", told
            )
        case errors.OutcomeUnknownError():
            return ApiFailure(HTTPStatus.GATEWAY_TIMEOUT, "unknown", told, UNKNOWN)
        case errors.PykraftError():
            return ApiFailure(HTTPStatus.INTERNAL_SERVER_ERROR, "failed", told, UNKNOWN)
        case _:
            return ApiFailure(
                HTTPStatus.INTERNAL_SERVER_ERROR, "failed", "a bug; the node's log has it", UNKNOWN, is_bug=True
            )


def _passing(code: str, told: str) -> ApiFailure:
    """It may succeed in a moment, or at another node."""
    return ApiFailure(HTTPStatus.SERVICE_UNAVAILABLE, code, told, headers=RETRY_SOON)


def item_json(item: Item) -> dict[str, Any]:
    """An item: its key and value, the revisions that created and changed it, how often it was put, its lease or 0."""
    return {
        "key": item.key,
        **value_json(item.value),
        "created": item.created,
        "modified": item.modified,
        "version": item.version,
        "lease": item.lease,
    }


def change_json(change: KeyChange) -> dict[str, Any]:
    """A change; the item of a deleted key is null."""
    item = None if change.item is None else item_json(change.item)
    return {"revision": change.revision, "key": change.key, "item": item}


def previous_json(result: TransactionResult) -> dict[str, Any]:
    """The item that was replaced, for a transaction with `read_previous`."""
    if not result.found:
        return {}
    [items] = result.found
    return {"previous": item_json(items[0]) if items else None}


def result_json(result: TransactionResult) -> dict[str, Any]:
    return {
        "succeeded": result.succeeded,
        "revision": result.revision,
        "found": [[item_json(item) for item in items] for items in result.found],
        "deleted": result.deleted,
    }


def parse_object(data: bytes) -> JsonFields:
    """The fields of a request's body; an empty body has none. Errors: UsageError for what is not a JSON object."""
    if not data:
        return JsonFields("the body", {})
    try:
        return JsonFields("the body", json.loads(data))
    except (ValueError, RecursionError) as error:
        raise errors.UsageError(f"the body is not JSON in UTF-8: {error}") from error


class JsonFields:
    """The fields of one object, each of which is read once."""

    def __init__(self, name: str, value: object) -> None:
        """``name`` begins messages about the object. Errors: UsageError for what is not an object."""
        if not isinstance(value, dict):
            raise errors.UsageError(f"{name}: must be a JSON object")
        self._name = name
        self._left: dict[str, Any] = dict(value)
        self._known: list[str] = []

    def take(self, name: str) -> Any:  # noqa: ANN401 - JSON
        """The field; None if it is absent or null."""
        self._known.append(name)
        return self._left.pop(name, None)

    def text(self, name: str) -> str:
        """A text. Errors: UsageError."""
        found = self.text_or_none(name)
        if found is None:
            raise errors.UsageError(f"{self._name}: {name} is missing")
        return found

    def text_or_none(self, name: str) -> str | None:
        """A text, or None if it is absent. Errors: UsageError."""
        found = self.take(name)
        if found is not None and not isinstance(found, str):
            raise errors.UsageError(f"{self._name}: {name} must be text")
        return found

    def whole(self, name: str, *, least: int = 0, most: int = INT64_MAX, default: int | None = None) -> int:
        """A whole number. Errors: UsageError."""
        found = self.whole_or_none(name, least=least, most=most)
        found = default if found is None else found
        if found is None:
            raise errors.UsageError(f"{self._name}: {name} is missing: a whole number from {least} to {most}")
        return found

    def whole_or_none(self, name: str, *, least: int = 0, most: int = INT64_MAX) -> int | None:
        """A whole number, or None if it is absent. Errors: UsageError."""
        found = self.take(name)
        return None if found is None else whole_number(name, found, least=least, most=most)

    def flag(self, name: str) -> bool:
        """True or false; false by default. Errors: UsageError."""
        found = self.take(name)
        if found is not None and type(found) is not bool:
            raise errors.UsageError(f"{self._name}: {name} must be true or false")
        return bool(found)

    def array(self, name: str, *, most: int) -> list[Any]:
        """A list, empty by default. Errors: UsageError."""
        found = self.take(name)
        if found is None:
            return []
        if not isinstance(found, list) or len(found) > most:
            raise errors.UsageError(f"{self._name}: {name} must be a list of at most {most}")
        return found

    def end(self) -> None:
        """Nothing else may be there: a misspelled field must not be ignored. Errors: UsageError."""
        for name in self._left:
            known = ", ".join(dict.fromkeys(self._known))
            told = f"there is no field {name[:100]!r}: it may have {known}"
            raise errors.UsageError(f"{self._name}: {told}{did_you_mean(name[:100], self._known)}")


ITEM_FIELDS: Final = ("value", "created", "modified", "version", "lease")
OPERATORS: Final = ("==", "!=", "<", ">")


def read_range(fields: JsonFields) -> tuple[str, str | None]:
    """``key``, or ``key`` and ``end``, or ``prefix``. Errors: UsageError."""
    key, end, beginning = (fields.text_or_none(name) for name in ("key", "end", "prefix"))
    if (key is None) == (beginning is None) or (beginning is not None and end is not None):
        raise errors.UsageError("give key, or key and end for a range, or prefix")
    return prefix(beginning) if beginning is not None else (cast("str", key), end)


def read_put(fields: JsonFields) -> Put:
    """Errors: UsageError."""
    text, binary = fields.text_or_none("value"), fields.text_or_none("base64")
    if (text is None) == (binary is None):
        raise errors.UsageError("give value (text) or base64 (any bytes)")
    if text is not None:
        check_text("value", text, most=VALUE_SIZE_BYTES_MAX)
    value = text if text is not None else stored_base64(cast("str", binary))
    return Put(fields.text("key"), value, fields.whole("lease", default=0), fields.flag("numbered"))


def read_previous(fields: JsonFields, key: str, *, is_one: bool) -> list[Get]:
    """What finds the item that a change replaces, if ``previous`` is true. Errors: UsageError."""
    if not fields.flag("previous"):
        return []
    if not is_one:
        raise errors.UsageError("previous: only for one key, which is not numbered; use /v1/txn with a get")
    return [Get(key)]


def read_transaction(fields: JsonFields) -> Transaction:
    """``if``, ``then`` and ``else``. Errors: UsageError."""
    conditions, then, otherwise = (fields.array(name, most=OPERATIONS_MAX) for name in ("if", "then", "else"))
    return Transaction(
        tuple(map(_operation, then)), tuple(map(_condition, conditions)), tuple(map(_operation, otherwise))
    )


def _operation(value: object) -> StoreOperation:
    """``{"get": …}``, ``{"put": …}`` or ``{"delete": …}``."""
    if not isinstance(value, dict) or len(value) != 1:
        raise errors.UsageError('an operation is {"get": …}, {"put": …} or {"delete": …}')
    [(name, inner)] = value.items()
    fields = JsonFields(f"{name[:100]!r}", inner)
    operation: StoreOperation
    match name:
        case "get":
            operation = Get(*read_range(fields), fields.whole("limit", least=1, most=GET_LIMIT_MAX, default=100))
        case "put":
            operation = read_put(fields)
        case "delete":
            operation = Delete(*read_range(fields))
        case _:
            raise errors.UsageError(f"{name[:100]!r} is not an operation: give get, put or delete")
    fields.end()
    return operation


def _condition(value: object) -> Condition:
    """``{"key": …, "field": …, "is": …, "to": …}``; ``base64`` in place of ``to`` for bytes."""
    fields = JsonFields("a condition", value)
    key = fields.text("key")
    field = _one_of(fields, "field", ITEM_FIELDS, "value")
    operator = _one_of(fields, "is", OPERATORS, "==")
    operand: Any = fields.take("to")
    binary = fields.text_or_none("base64")
    fields.end()
    if binary is not None:
        if operand is not None:
            raise errors.UsageError("a condition: give to (text, a number or null) or base64")
        operand = stored_base64(binary)
    elif isinstance(operand, str):
        check_text("to", operand, most=VALUE_SIZE_BYTES_MAX)
    return Condition(key, cast("ItemField", field), cast("Any", operator), operand)


def _one_of(fields: JsonFields, name: str, allowed: tuple[str, ...], default: str) -> str:
    found = fields.text_or_none(name) or default
    if found not in allowed:
        raise errors.UsageError(f"a condition: {name} = {found[:100]!r}: give one of {', '.join(allowed)}")
    return found

"""Reads ranges, operations, conditions and transactions of the store from JSON.

Sizes and limits are checked where commands are made, see `pykraft.recipes.key_value_commands.check_command`. Invariant:
a wrong, unknown or missing field is refused by its name.

Source: ours (ADR 085); RFC 8259.
"""

from __future__ import annotations

import json
from typing import Any, Final, cast

from pykraft.client.arguments import INT64_MAX, whole_number
from pykraft.errors import UsageError
from pykraft.kv.json_answers import stored_base64, stored_text
from pykraft.recipes import Condition, Delete, Get, Put, Transaction, prefix
from pykraft.recipes.key_value_commands import GET_LIMIT_MAX, OPERATIONS_MAX, ItemField, StoreOperation
from pykraft.text.words import did_you_mean


def parse_object(data: bytes) -> JsonFields:
    """The fields of a request's body; an empty body has none. Errors: UsageError for what is not a JSON object."""
    if not data:
        return JsonFields("the body", {})
    try:
        return JsonFields("the body", json.loads(data))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the body is not JSON in UTF-8: {error}") from error


class JsonFields:
    """The fields of one object, each of which is read once."""

    def __init__(self, name: str, value: object) -> None:
        """``name`` begins messages about the object. Errors: UsageError for what is not an object."""
        if not isinstance(value, dict):
            raise UsageError(f"{name}: must be a JSON object")
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
            raise UsageError(f"{self._name}: {name} is missing")
        return found

    def text_or_none(self, name: str) -> str | None:
        """A text, or None if it is absent. Errors: UsageError."""
        found = self.take(name)
        if found is not None and not isinstance(found, str):
            raise UsageError(f"{self._name}: {name} must be text")
        return found

    def whole(self, name: str, *, least: int = 0, most: int = INT64_MAX, default: int | None = None) -> int:
        """A whole number. Errors: UsageError."""
        found = self.whole_or_none(name, least=least, most=most)
        found = default if found is None else found
        if found is None:
            raise UsageError(f"{self._name}: {name} is missing: a whole number from {least} to {most}")
        return found

    def whole_or_none(self, name: str, *, least: int = 0, most: int = INT64_MAX) -> int | None:
        """A whole number, or None if it is absent. Errors: UsageError."""
        found = self.take(name)
        return None if found is None else whole_number(name, found, least=least, most=most)

    def flag(self, name: str) -> bool:
        """True or false; false by default. Errors: UsageError."""
        found = self.take(name)
        if found is not None and type(found) is not bool:
            raise UsageError(f"{self._name}: {name} must be true or false")
        return bool(found)

    def array(self, name: str, *, most: int) -> list[Any]:
        """A list, empty by default. Errors: UsageError."""
        found = self.take(name)
        if found is None:
            return []
        if not isinstance(found, list) or len(found) > most:
            raise UsageError(f"{self._name}: {name} must be a list of at most {most}")
        return found

    def end(self) -> None:
        """Nothing else may be there: a misspelled field must not be ignored. Errors: UsageError."""
        for name in self._left:
            known = ", ".join(dict.fromkeys(self._known))
            told = f"there is no field {name[:100]!r}: it may have {known}"
            raise UsageError(f"{self._name}: {told}{did_you_mean(name[:100], self._known)}")


ITEM_FIELDS: Final = ("value", "created", "modified", "version", "lease")
OPERATORS: Final = ("==", "!=", "<", ">")


def read_range(fields: JsonFields) -> tuple[str, str | None]:
    """``key``, or ``key`` and ``end``, or ``prefix``. Errors: UsageError."""
    key, end, beginning = (fields.text_or_none(name) for name in ("key", "end", "prefix"))
    if (key is None) == (beginning is None) or (beginning is not None and end is not None):
        raise UsageError("give key, or key and end for a range, or prefix")
    return prefix(beginning) if beginning is not None else (cast("str", key), end)


def read_put(fields: JsonFields) -> Put:
    """Errors: UsageError."""
    text, binary = fields.text_or_none("value"), fields.text_or_none("base64")
    if (text is None) == (binary is None):
        raise UsageError("give value (text) or base64 (any bytes)")
    value = stored_text(text) if text is not None else stored_base64(cast("str", binary))
    return Put(fields.text("key"), value, fields.whole("lease", default=0), fields.flag("numbered"))


def read_transaction(fields: JsonFields) -> Transaction:
    """``if``, ``then`` and ``else``. Errors: UsageError."""
    conditions, then, otherwise = (fields.array(name, most=OPERATIONS_MAX) for name in ("if", "then", "else"))
    return Transaction(
        tuple(map(_operation, then)), tuple(map(_condition, conditions)), tuple(map(_operation, otherwise))
    )


def _operation(value: object) -> StoreOperation:
    """``{"get": …}``, ``{"put": …}`` or ``{"delete": …}``."""
    if not isinstance(value, dict) or len(value) != 1:
        raise UsageError('an operation is {"get": …}, {"put": …} or {"delete": …}')
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
            raise UsageError(f"{name[:100]!r} is not an operation: give get, put or delete")
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
            raise UsageError("a condition: give to (text, a number or null) or base64")
        operand = stored_base64(binary)
    elif isinstance(operand, str):
        operand = stored_text(operand)
    return Condition(key, cast("ItemField", field), cast("Any", operator), operand)


def _one_of(fields: JsonFields, name: str, allowed: tuple[str, ...], default: str) -> str:
    found = fields.text_or_none(name) or default
    if found not in allowed:
        raise UsageError(f"a condition: {name} = {found[:100]!r}: give one of {', '.join(allowed)}")
    return found

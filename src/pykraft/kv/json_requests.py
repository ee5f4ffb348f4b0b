"""Reads ranges, operations, conditions and transactions of the store from JSON.

Sizes and limits are checked where commands are made, see `pykraft.recipes.key_value_commands.check_command`.

Source: ours (ADR 085).
"""

from __future__ import annotations

from typing import Any, Final, cast

from pykraft.errors import UsageError
from pykraft.kv.json_fields import JsonFields
from pykraft.kv.json_values import stored_base64, stored_text
from pykraft.recipes import Condition, Delete, Get, Put, Transaction, prefix
from pykraft.recipes.key_value_commands import GET_LIMIT_MAX, OPERATIONS_MAX, ItemField, StoreOperation

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

"""Commands, results and snapshots of the key-value store as JSON. Invariant: what was serialized comes back equal.

Source: ours (ADR 087).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

from pykraft.client.serde import from_json
from pykraft.recipes.key_value_commands import (
    Compact,
    Condition,
    Delete,
    EndLease,
    Get,
    GrantLease,
    Item,
    KeepLease,
    KeyChange,
    Put,
    Transaction,
    TransactionResult,
    check_command,
)


@dataclass(frozen=True, slots=True)
class StoreHead:
    """The first record of a snapshot."""

    revision: int
    oldest_revision: int


@dataclass(frozen=True, slots=True)
class LeaseState:
    """A lease in a snapshot."""

    lease: int
    ttl_ms: int
    expires_ms: int


class RecordSerde:
    """Dataclasses, also within each other, as JSON lists: ``["Put","color","red",0,false]``; a tuple as a list."""

    def __init__(self, *classes: type, check: Callable[[object], None] | None = None) -> None:
        self._classes = {one.__name__: one for one in classes}
        self._check = check

    def serialize(self, record: Any) -> bytes:  # noqa: ANN401 - any of the classes
        """Errors: what ``check`` raises."""
        if self._check is not None:
            self._check(record)
        return json.dumps(_plain(record), ensure_ascii=False, separators=(",", ":")).encode()

    def deserialize(self, data: bytes) -> Any:  # noqa: ANN401 - as above
        """Errors: ValueError, TypeError or KeyError for what is none of these."""
        return self._built(from_json(data))

    def _built(self, value: Any) -> Any:  # noqa: ANN401 - JSON
        if not isinstance(value, list):
            return value
        if value and isinstance(value[0], str):
            return self._classes[value[0]](*map(self._built, value[1:]))
        return tuple(map(self._built, value))


def _plain(value: Any) -> Any:  # noqa: ANN401 - JSON
    if is_dataclass(value):
        return [type(value).__name__, *(_plain(getattr(value, field.name)) for field in fields(value))]
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


COMMANDS: Final = RecordSerde(
    Transaction, Condition, Get, Put, Delete, GrantLease, KeepLease, EndLease, Compact, check=check_command
)
RESULTS: Final = RecordSerde(TransactionResult, Item)
SNAPSHOTS: Final = RecordSerde(StoreHead, LeaseState, Item, KeyChange)

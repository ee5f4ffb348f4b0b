"""Writes items, changes and errors of the store as JSON; an error has its HTTP status and says what has happened.

Invariant: ``outcome`` is "not applied" only if nothing was changed and nothing will be; "unknown" if a change may have
been made, or may still be. An answer without an error means that the change was applied.

Source: ours (ADR 085); RFC 9110 §15.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from pykraft.errors import (
    BufferFullError,
    CommandRejectedError,
    CompactedError,
    NotAppliedError,
    NotRunningError,
    OutcomeUnknownError,
    PykraftError,
    QuorumUnavailableError,
    UsageError,
)
from pykraft.kv.json_values import value_json
from pykraft.recipes import Item, KeyChange, TransactionResult

NOT_APPLIED: Final = "not applied"
UNKNOWN: Final = "unknown"
RETRY_SOON: Final = (b"retry-after: 1",)
_LEASE_HAS_ENDED: Final = re.compile(r"lease \d+ has ended, or never was")


class RequestRefusedError(PykraftError):
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
        """The answer's body."""
        return {"error": {"code": self.code, "outcome": self.outcome, "message": self.message, **self.more}}


def failure_of(error: Exception) -> ApiFailure:
    """The answer for an error; the most specific class is matched first."""
    told = str(error)
    match error:
        case RequestRefusedError():
            return ApiFailure(error.status, error.code, told, headers=error.headers)
        case CompactedError():
            return ApiFailure(HTTPStatus.GONE, "compacted", told, more={"oldest_revision": error.oldest_revision})
        case NotRunningError():
            return _passing("not_running", told)
        case BufferFullError():
            return _passing("busy", told)
        case UsageError():
            return ApiFailure(HTTPStatus.BAD_REQUEST, "invalid", told)
        case NotAppliedError():
            return _passing("not_applied", told)
        case QuorumUnavailableError():
            return _passing("no_leader", told)
        case CommandRejectedError():
            return ApiFailure(
                HTTPStatus.CONFLICT, "lease_ended" if _LEASE_HAS_ENDED.fullmatch(told) else "rejected", told
            )
        case OutcomeUnknownError():
            return ApiFailure(HTTPStatus.GATEWAY_TIMEOUT, "unknown", told, UNKNOWN)
        case PykraftError():
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


def result_json(result: TransactionResult) -> dict[str, Any]:
    """What a transaction did."""
    return {
        "succeeded": result.succeeded,
        "revision": result.revision,
        "found": [[item_json(item) for item in items] for items in result.found],
        "deleted": result.deleted,
    }

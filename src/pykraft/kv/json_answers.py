"""Writes items, changes and errors of the store as JSON; an error has its HTTP status and says what has happened.

Invariants: ``outcome`` is "not applied" only if nothing was changed and nothing will be; "unknown" if a change may have
been made, or may still be. The store keeps text: bytes that are not UTF-8 are kept as `BINARY_MARK` and base64, and so
is text that begins with this mark. So what was put comes back as the same bytes, and equal bytes are kept as equal
text, which conditions may compare.

Source: ours (ADR 085); RFC 9110 §15; RFC 4648 §4.
"""

from __future__ import annotations

import base64
import binascii
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
from pykraft.recipes import Item, KeyChange, TransactionResult

BINARY_MARK: Final = "\0base64:"


def stored_value(data: bytes) -> str:
    """The text that the store keeps for these bytes."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return BINARY_MARK + base64.b64encode(data).decode("ascii")
    return stored_text(text)


def stored_text(given: str) -> str:
    """The text that the store keeps for this text."""
    if given.startswith(BINARY_MARK):
        # It would be read as base64.
        return BINARY_MARK + base64.b64encode(given.encode("utf-8", "surrogatepass")).decode("ascii")
    return given


def stored_base64(text: str) -> str:
    """The text that the store keeps for bytes in base64. Errors: UsageError for what is not base64."""
    try:
        return stored_value(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError) as error:
        raise UsageError(f"base64 = {text!r:.100}: must be base64 with its padding ({error})") from error


def value_bytes(stored: str) -> bytes:
    """The bytes that were put."""
    if stored.startswith(BINARY_MARK):
        try:
            return base64.b64decode(stored.removeprefix(BINARY_MARK), validate=True)
        except (binascii.Error, ValueError):
            pass  # a program put this text without the service
    return stored.encode()


def value_json(stored: str) -> dict[str, Any]:
    """``{"value": text}``, or ``{"base64": text}`` for bytes that are not UTF-8."""
    data = value_bytes(stored)
    try:
        return {"value": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode("ascii")}


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

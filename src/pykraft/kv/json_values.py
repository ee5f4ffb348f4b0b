"""Values of the store as JSON: text as ``value``, other bytes as ``base64``.

The store keeps text. Bytes that are not UTF-8 are kept as `BINARY_MARK` and base64, and so is text that begins with
this mark. Invariant: what was put comes back as the same bytes, and equal bytes are kept as equal text, so that
conditions may compare them.

Source: ours (ADR 085); RFC 4648 §4.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from pykraft.errors import UsageError

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

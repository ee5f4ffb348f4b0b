"""Reads the fields of a JSON object from outside. Invariant: a wrong, unknown or missing field is refused by its name.

Source: ours (ADR 085); RFC 8259.
"""

from __future__ import annotations

import json
from typing import Any

from pykraft.client.arguments import INT64_MAX, whole_number
from pykraft.errors import UsageError
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

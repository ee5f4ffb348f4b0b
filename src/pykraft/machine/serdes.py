"""Commands that are dataclasses, as JSON: ``["Add", {"key": "x", "amount": 1}]``.

Invariant: what was serialized comes back equal. A command that would come back as something else, say a tuple as a
list, is refused when it is serialized, so no replica ever sees it.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any, Final, TypeVar

from pykraft.client.serde import Serde, from_json
from pykraft.errors import UsageError

T = TypeVar("T")
_encode: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_COMES_BACK_EQUAL: Final = {str, int, bool, float, type(None)}
"""Types whose values JSON gives back as they were."""


class _Dataclasses:
    def __init__(self, classes: dict[str, type]) -> None:
        self._classes = classes
        self._names = {one: [field.name for field in fields(one)] for one in classes.values()}

    def serialize(self, record: Any) -> bytes:  # noqa: ANN401 - any of the classes
        """Errors: TypeError for another class, and for a field that would not come back equal."""
        names = self._names.get(type(record))
        if names is None:
            known = ", ".join(self._classes)
            raise TypeError(f"a command is one of {known} here, not {type(record).__name__}")
        values = {name: getattr(record, name) for name in names}
        tagged = [type(record).__name__, values]
        data = _encode(tagged).encode()
        if not _COMES_BACK_EQUAL.issuperset(map(type, values.values())) and json.loads(data) != tagged:
            raise TypeError(f"{record!r} has a field that JSON gives back as something else, such as a tuple as a list")
        return data

    def deserialize(self, data: bytes) -> Any:  # noqa: ANN401 - as above
        """Errors: ValueError, TypeError or KeyError for what is none of these commands."""
        name, values = from_json(data)
        return self._classes[name](**values)


def dataclass_serde(*classes: type[T]) -> Serde[T]:
    """A serde for these dataclasses, by name; a class that gets another field gives it a default.

    Errors: UsageError for what is not a dataclass, and for two classes of one name.
    """
    by_name: dict[str, type] = {}
    for one in classes:
        if not is_dataclass(one):
            raise UsageError(f"{one!r} is not a dataclass")
        if one.__name__ in by_name:
            raise UsageError(f"two classes are called {one.__name__}: commands are told apart by their names")
        by_name[one.__name__] = one
    return _Dataclasses(by_name)

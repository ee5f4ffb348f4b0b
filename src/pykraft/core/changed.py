"""Copies a frozen value with other fields, in half the time of `dataclasses.replace`.

It is for what happens with each batch; elsewhere `replace` is as good.

Source: CPython's ``dataclasses.replace``, without its support for fields that are no arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, cast

T = TypeVar("T")


def changed(value: T, **changes: object) -> T:
    """A copy of this dataclass, all of whose fields are arguments of its constructor, with these fields changed."""
    kind: type = type(value)
    names, read = _fields(kind)
    arguments: dict[str, Any] = dict(zip(names, read(value), strict=True))
    arguments.update(changes)
    return cast("T", kind(**arguments))


@cache
def _fields(kind: type) -> tuple[tuple[str, ...], Callable[[object], tuple[object, ...]]]:
    names = tuple(field.name for field in fields(kind))
    assert len(names) > 1, "attrgetter returns a tuple for two names and more"
    return names, attrgetter(*names)

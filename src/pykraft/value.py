"""Values that are made in every step: frozen for the type checker, plain at run time.

`value` is `dataclasses.dataclass` under another name to mypy and pyright, which refuse an assignment to a field. At run
time the class has slots and an ordinary constructor: one that has to get around its own ``__setattr__`` takes three
times as long, and a record passes about a hundred such values. Equality, hash and ``repr`` are those of a frozen
dataclass. It is for what the steps of one node hand each other; what an application gets is frozen at run time, too.

`freeze` and `remade` are for the compiled copies of modules (`compiled.constructors`).

Source: ours (ADR 104, 116); CPython's ``dataclasses``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

__all__ = ["freeze", "remade", "value"]

T = TypeVar("T")

if TYPE_CHECKING:  # to the type checkers it is another class decorator
    from dataclasses import dataclass as value
else:
    from dataclasses import dataclass

    def value(*, frozen: bool, slots: bool, kw_only: bool = False) -> Callable[[type[T]], type[T]]:
        """Make the class a dataclass that compares and hashes as a frozen one does, but checks no assignment."""
        assert frozen, "a value never changes"
        return dataclass(slots=slots, kw_only=kw_only, unsafe_hash=True)


def remade(kind: type[T], fields: dict[str, Any]) -> T:
    """A value of this class with these fields: how pickle and copy make values of compiled modules."""
    return kind(**fields)


def freeze(*kinds: type) -> None:
    """Let these classes refuse assignments, as ``frozen=True`` does, except by compiled code of their own module."""
    for kind in kinds:
        kind.__setattr__ = _refuse  # type: ignore[method-assign]
        kind.__delattr__ = _refuse  # type: ignore[method-assign, assignment]


def _refuse(self: object, name: str, value: object = None) -> NoReturn:
    del value
    raise FrozenInstanceError(f"cannot assign to field {name!r} of {type(self).__name__}")

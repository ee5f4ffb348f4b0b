"""Patches production code for a while, and restores it afterwards.

It needs no test framework, so the command line can plant bugs, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, MutableMapping
from types import TracebackType
from typing import Any, Self, cast


class Patch:
    """A context manager that undoes its replacements in reverse order when it ends."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        while self._undo:
            self._undo.pop()()

    def setattr(self, target: Any, name: str, value: Any) -> None:
        """Replace an attribute of a class, an object or a module."""
        known = vars(target)[name]
        self._undo.append(lambda: setattr(target, name, known))
        setattr(target, name, value)

    def setitem(self, table: Any, key: Any, value: Any) -> None:
        """Replace or add an entry of a table, even if its type is read-only."""
        entries = cast(MutableMapping[Any, Any], table)
        if key in entries:
            known = entries[key]
            self._undo.append(lambda: entries.__setitem__(key, known))
        else:
            self._undo.append(lambda: entries.__delitem__(key))
        entries[key] = value

    def everywhere(self, function: Any, value: Any) -> None:
        """Replace a function in every pykraft module that imported it, and in the tables of those modules."""
        for module in [module for name, module in sys.modules.items() if name.startswith("pykraft.")]:
            for name, known in list(vars(module).items()):
                if known is function:
                    self.setattr(module, name, value)
                elif isinstance(known, dict):
                    for key in [key for key, entry in known.items() if entry is function]:
                        self.setitem(known, key, value)

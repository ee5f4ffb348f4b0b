"""Takes a rule out of production code for a while: replaces what functions and tables say, and puts it back.

No test framework is needed, so that the command line can plant bugs, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, MutableMapping
from types import TracebackType
from typing import Any, Self, cast


class Patch:
    """A context: what was replaced within it is as before when it ends."""

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
        """Replace or add an entry of a table, also of one that is read only for the type checker."""
        entries = cast(MutableMapping[Any, Any], table)
        if key in entries:
            known = entries[key]
            self._undo.append(lambda: entries.__setitem__(key, known))
        else:
            self._undo.append(lambda: entries.__delitem__(key))
        entries[key] = value

    def everywhere(self, function: Any, value: Any) -> None:
        """Replace a function in every module of ours that imported it, and in tables of such modules."""
        for module in [module for name, module in sys.modules.items() if name.startswith("pykraft.")]:
            for name, known in list(vars(module).items()):
                if known is function:
                    self.setattr(module, name, value)
                elif isinstance(known, dict):
                    for key in [key for key, entry in known.items() if entry is function]:
                        self.setitem(known, key, value)

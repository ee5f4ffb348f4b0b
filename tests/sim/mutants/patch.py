"""A planted bug patches production code for a while, which is restored afterwards.

It needs no test framework, so the command line can plant bugs, too.
"""

import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One bug. The docstring of ``plant`` says what is wrong, ``source`` who made or nearly made the mistake."""

    plant: Callable[[Patch], None]
    source: str
    scenario: str
    """Scenarios of its worlds, separated by commas: shipped ones, or those in ``scenarios`` beside this."""

    @property
    def name(self) -> str:
        return self.plant.__name__

    @property
    def story(self) -> str:
        """What is wrong, in one sentence or two."""
        return " ".join((self.plant.__doc__ or "").split())


MUTANTS: dict[str, Mutant] = {}


def bug(source: str, scenario: str = "default") -> Callable[[Callable[[Patch], None]], Callable[[Patch], None]]:
    """Add the function, which plants a bug, to ``MUTANTS``."""

    def register(plant: Callable[[Patch], None]) -> Callable[[Patch], None]:
        assert plant.__name__ not in MUTANTS, plant.__name__
        MUTANTS[plant.__name__] = Mutant(plant=plant, source=source, scenario=scenario)
        return plant

    return register


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Plant the bug for the duration of the context."""
    with Patch() as patch:
        mutant.plant(patch)
        yield

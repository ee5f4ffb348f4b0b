"""The rules that must hold in every world: one invariant per file, each with its source.

Each oracle is told what happens (`Invariant`) and raises `ViolationError`; none changes anything in the world. To add
one, put a file into the folder of its subject: `ALL` has them by subject and file name, without those with subclasses.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.invariants.violation import ViolationError

SUBJECTS = ("elections", "membership", "log", "snapshots", "disks", "clients", "liveness")


def _oracles(subject: str) -> Iterator[type[Invariant]]:
    folder = import_module(f"{__name__}.{subject}")
    for name in sorted(module.name for module in iter_modules(folder.__path__)):
        module = import_module(f"{folder.__name__}.{name}")
        yield from (
            kind
            for kind in vars(module).values()
            if isinstance(kind, type) and issubclass(kind, Invariant) and kind.__module__ == module.__name__
        )


_FOUND = [oracle for subject in SUBJECTS for oracle in _oracles(subject)]
ALL: tuple[type[Invariant], ...] = tuple(oracle for oracle in _FOUND if not oracle.__subclasses__())

__all__ = ["ALL", "Invariant", "ViolationError"]

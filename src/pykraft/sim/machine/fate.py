"""What a power loss leaves of everything that was not synced: one decision for each name, size and page.

The disk (`pykraft.sim.machine.disk`) asks, and a fate answers. `DrawnFate` leaves it to chance; the five `Extreme`
ones are for tests that look at each operation of a program and cannot afford many draws.

The disk promises very little, so a fate may choose from much (ALICE, OSDI 2014, its weakest order): writes reach the
platter in any order and at any time before the loss, so a page may hold any of the contents that it had since it was
last clean, and a size may be any in between. No size of an atomic write is assumed: a page may be a mix of two of its
contents, cut at any byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol

from pykraft.sim.scenario.scenario import Storage


class Fate(Protocol):
    """Answers for one power loss. Each sequence begins with what is on the platter and ends with the present."""

    def keeps_name(self) -> bool:
        """Whether one change of a directory that was not synced survives: a new, renamed or removed entry."""

    def size_bytes(self, sizes: Sequence[int]) -> int:
        """The surviving size of a file."""

    def page(self, contents: Sequence[bytes]) -> bytes:
        """The surviving content of a page; all contents are whole pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extreme:
    """All or nothing of each kind."""

    name: str
    keeps_names: bool
    keeps_sizes: bool
    keeps_pages: bool

    def keeps_name(self) -> bool:
        """See `Fate`."""
        return self.keeps_names

    def size_bytes(self, sizes: Sequence[int]) -> int:
        """See `Fate`."""
        return sizes[-1 if self.keeps_sizes else 0]

    def page(self, contents: Sequence[bytes]) -> bytes:
        """See `Fate`."""
        return contents[-1 if self.keeps_pages else 0]


EXTREMES: Final = (
    Extreme(name="all lost", keeps_names=False, keeps_sizes=False, keeps_pages=False),
    Extreme(name="all kept", keeps_names=True, keeps_sizes=True, keeps_pages=True),
    Extreme(name="names only", keeps_names=True, keeps_sizes=False, keeps_pages=False),
    Extreme(name="names and sizes", keeps_names=True, keeps_sizes=True, keeps_pages=False),
    Extreme(name="bytes only", keeps_names=False, keeps_sizes=True, keeps_pages=True),
)
ALL_KEPT: Final = EXTREMES[1]


class DrawnFate:
    """Draws each decision independently of the others."""

    def __init__(self, rng: Random, storage: Storage | None = None) -> None:
        self._rng = rng
        self._storage = storage or Storage()

    def keeps_name(self) -> bool:
        """See `Fate`."""
        return self._rng.random() < 0.5

    def size_bytes(self, sizes: Sequence[int]) -> int:
        """See `Fate`: the old one, the new one, one in between in time, or one in between in size."""
        rng = self._rng
        return rng.choice((sizes[0], sizes[-1], rng.choice(sizes), rng.randint(min(sizes), max(sizes))))

    def page(self, contents: Sequence[bytes]) -> bytes:
        """See `Fate`: torn, lost, or one of the contents that it had since."""
        chance = self._rng.random()
        if chance < self._storage.page_torn_probability:
            return self._torn(*self._rng.sample(contents, 2))
        if chance < self._storage.page_torn_probability + self._storage.page_lost_probability:
            return contents[0]
        return self._rng.choice(contents[1:])

    def _torn(self, one: bytes, other: bytes) -> bytes:
        """The first part of one and the rest of the other, cut where they differ; equal ones cannot be torn."""
        differing = [at for at, (left, right) in enumerate(zip(one, other, strict=True)) if left != right]
        if not differing:
            return one
        cut = self._rng.randint(differing[0] + 1, max(differing[-1], differing[0] + 1))
        return one[:cut] + other[cut:]

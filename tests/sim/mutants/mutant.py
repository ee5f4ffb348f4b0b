"""What a planted bug is: a patch of production code, its story, the source of the story, and its scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.sim.mutants.patch import Patch


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One bug. The docstring of ``plant`` says what is wrong, ``source`` who made or nearly made the mistake."""

    plant: Callable[[Patch], None]
    source: str
    scenario: str = "default"
    """Scenarios of its worlds, separated by commas: shipped ones, or those in ``scenarios`` beside this."""

    @property
    def name(self) -> str:
        return self.plant.__name__

    @property
    def story(self) -> str:
        """What is wrong, in one sentence or two."""
        return " ".join((self.plant.__doc__ or "").split())


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Plant the bug for the duration of the context."""
    with Patch() as patch:
        mutant.plant(patch)
        yield

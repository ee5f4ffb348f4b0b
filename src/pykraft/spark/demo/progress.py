"""How the demo tells what it does: stages, which stay, and what passes while a stage lasts."""

from __future__ import annotations

from typing import Protocol


class Tell(Protocol):
    """Takes one line at a time."""

    def __call__(self, text: str, *, is_passing: bool = False) -> None:
        """A stage, or with ``is_passing`` what replaces the last line of that kind where that can be done."""
        ...

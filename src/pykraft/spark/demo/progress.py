"""The interface for the demo's progress: stages, which stay on the screen, and passing states."""

from __future__ import annotations

from typing import Protocol


class Tell(Protocol):
    """Takes one line at a time."""

    def __call__(self, text: str, *, is_passing: bool = False) -> None:
        """Print a stage or, with ``is_passing``, a line that replaces the last passing one where possible."""
        ...

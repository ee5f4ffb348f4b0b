"""The interface for the progress of a long command: lines that stay on the screen, and passing ones."""

from typing import Protocol


class ReportProgress(Protocol):
    """Takes one line at a time."""

    def __call__(self, text: str, *, is_passing: bool = False) -> None:
        """Print a line; with ``is_passing``, the next line replaces it where possible."""

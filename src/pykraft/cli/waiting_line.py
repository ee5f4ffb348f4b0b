"""Tells the person at a terminal what a command waits for, on a line of standard error that is gone afterwards.

Invariant: nothing is printed without a terminal, and nothing is left when the wait is over.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from pykraft.cli.printable import printable

if TYPE_CHECKING:  # rich takes a tenth of a second to import, and most commands never wait
    from rich.status import Status


class WaitingLine:
    """One line; `tell` is a `pykraft.client.remote.leader_search.OnWaiting`."""

    def __init__(self) -> None:
        self._status: Status | None = None
        self._begun_s = 0.0

    def tell(self, story: str | None) -> None:
        """Show that there is no leader, for how long, and what is wrong with each node; None takes the line away."""
        if story is None:
            if self._status is not None:
                self._status.stop()
                self._status = None
            return
        if sys.__stderr__ is None or not sys.__stderr__.isatty():
            return
        from rich.console import Console
        from rich.status import Status
        from rich.text import Text

        if self._status is None:
            self._begun_s = time.monotonic()
            self._status = Status("", console=Console(stderr=True))
            self._status.start()
        waited_s = time.monotonic() - self._begun_s
        self._status.update(Text(f"waiting for a leader, {waited_s:.0f} s: {printable(story)}"))

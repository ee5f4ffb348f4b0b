"""Events that the core has not handled yet.

Frame handlers, effects that fail at once and listeners that propose all put events here. The host takes them one by
one, so that no step begins within another. Fetched records travel beside their event: the core gets headers only, and
the effect that appends the records comes out of the same step.

Source: the shape is dask's ``worker_state_machine`` (instructions out, events in).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from pykraft.core.events import Event
from pykraft.host.recent_batches import HeaderAndBytes
from pykraft.types import Buffer
from pykraft.value import value

NO_BATCHES: Sequence[HeaderAndBytes] = ()


@value(frozen=True, slots=True)
class Arrival:
    """One event, and the batches of its Fetch response."""

    event: Event
    fetched: Sequence[HeaderAndBytes] = NO_BATCHES
    slice_data: Buffer = b""
    """The bytes of its FetchSnapshot response."""


class Inbox:
    """Events in the order of arrival."""

    def __init__(self) -> None:
        self._arrivals: deque[Arrival] = deque()
        self.is_closed = False
        """True once the core takes no more steps."""

    def put(self, event: Event, fetched: Sequence[HeaderAndBytes] = NO_BATCHES, slice_data: Buffer = b"") -> None:
        """Add an event for a later step; ignored once closed."""
        if not self.is_closed:
            self._arrivals.append(Arrival(event, fetched, slice_data))

    def take(self) -> Arrival | None:
        """The oldest event, or None."""
        return self._arrivals.popleft() if self._arrivals else None

    def close(self) -> None:
        """The core takes no more steps: drop waiting and later events."""
        self.is_closed = True
        self._arrivals.clear()

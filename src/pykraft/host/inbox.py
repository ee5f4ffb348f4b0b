"""What waits in a node: events for the core, messages for the disk, and callers for an outcome.

Frame handlers, effects that fail at once and listeners that propose all put events into the `Inbox`. The host takes
them one by one, so that no step begins within another. Fetched records travel beside their event: the core gets headers
only, and the effect that appends the records comes out of the same step.

Invariants: a held message leaves at once if its ``after`` is durable, else in the call that reports that job; never
earlier, and at most once. There is at most one per key, so the number is bounded: one request per peer (a newer one
replaces an older one that has not left) and one reply per request. A waiting caller gets exactly one outcome, also when
the node ends.

Source: dask's ``worker_state_machine`` (instructions out, events in); etcd ``raft/doc.go`` (write before you send);
openraft ``io_ordering``.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from pykraft.core.events import Event
from pykraft.errors import NotRunningError, OutcomeUnknownError
from pykraft.host.fetch_read import HeaderAndBytes
from pykraft.types import NO_IO, Buffer, Io, Offset
from pykraft.value import value

OnReadIndex: TypeAlias = Callable[[Offset | Exception], None]


class PendingReads:
    """Waiting callers by handle."""

    def __init__(self) -> None:
        self._waiting: dict[int, OnReadIndex] = {}
        self._next_handle = 1

    def begin(self, on_outcome: OnReadIndex) -> int:
        """Register a read; returns its handle."""
        handle, self._next_handle = self._next_handle, self._next_handle + 1
        self._waiting[handle] = on_outcome
        return handle

    def answered(self, handle: int, outcome: Offset | Exception) -> None:
        self._waiting.pop(handle)(outcome)

    def end(self) -> None:
        """The node has ended: no read begins any more."""
        waiting, self._waiting = self._waiting, {}
        for on_outcome in waiting.values():
            on_outcome(NotRunningError("the node has ended"))


OnOutcome: TypeAlias = Callable[[Exception | None], None]


class PendingRequests:
    """Waiting callers by handle."""

    def __init__(self) -> None:
        self._waiting: dict[int, OnOutcome] = {}
        self._next_handle = 1

    def begin(self, on_outcome: OnOutcome) -> int:
        """Register a request; returns its handle."""
        handle, self._next_handle = self._next_handle, self._next_handle + 1
        self._waiting[handle] = on_outcome
        return handle

    def answered(self, handle: int, error: Exception | None) -> None:
        """The core has the outcome: None when it is done, or possible."""
        self._waiting.pop(handle)(error)

    def refuse(self, handle: int) -> None:
        """The node had stopped before the core got this request, so it is not carried out."""
        self._waiting.pop(handle)(NotRunningError("the node has stopped"))

    def end(self) -> None:
        """The node stops: the other nodes may still complete what was started, or not."""
        waiting, self._waiting = self._waiting, {}
        for on_outcome in waiting.values():
            on_outcome(OutcomeUnknownError("the node stopped before it knew the outcome"))


MessageKey: TypeAlias = tuple[Literal["request to peer", "reply to request"], int]


class HeldMessages:
    """Messages that may not leave yet, in the order in which they came."""

    def __init__(self) -> None:
        self._durable = NO_IO
        self._held: dict[MessageKey, tuple[Io, Callable[[], None]]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def send_when_durable(self, key: MessageKey, after: Io, go: Callable[[], None]) -> None:
        """Call ``go`` once job ``after`` is durable; an older message of the same key never leaves."""
        self._held.pop(key, None)
        if after <= self._durable:
            go()
        else:
            self._held[key] = (after, go)

    def drop(self, key: MessageKey) -> None:
        """Drop this message: its receiver is gone."""
        self._held.pop(key, None)

    def persisted(self, io: Io) -> None:
        """Every job up to ``io`` is durable: messages that waited for one of them leave."""
        assert io >= self._durable, "durable jobs stay durable"
        self._durable = io
        for key in [key for key, (after, _) in self._held.items() if after <= io]:
            _, go = self._held.pop(key)
            go()


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

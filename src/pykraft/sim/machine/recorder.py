"""What happened in a world, as events in order: the raw material of the page that shows a run.

Given to a world by whoever wants to look at it; a world without one pays nothing. Frames are kept as they were sent
and read later (`pykraft.sim.page.words`), so that recording changes nothing in the run. Invariant: events are in the
order in which they happened, and an arrival names an event of sending before it. The last events are kept, and how
many came before them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

EVENTS_MAX = 60_000
"""What one recorder keeps: several times the longest world of the shipped scenarios."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """One node as it is after an event; offsets are exclusive, and None when the node is down or does not know."""

    role: str
    """Kafka's name of the state, or ``down``."""
    epoch: int
    leader_id: int | None
    vote: int | None
    """Whom the platter remembers a vote for, in ``disk_epoch``."""
    disk_epoch: int
    log_end: int | None
    flushed: int
    """Log end that a power loss now would leave."""
    high_watermark: int | None
    is_damaged: bool = False
    """True while the process knows that part of its log is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened at a node (None: to the world), and when in microseconds."""

    at_us: int
    node_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent(Event):
    """A frame left this node; ``number`` names it."""

    number: int
    target_id: int
    frame: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived(Event):
    """The frame of that number reached this node; more than once when the network doubled it."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed(Event):
    """The node's state is another one from now on."""

    state: NodeState


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault(Event):
    """Harm was done: its kind, as the report counts it."""

    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Note(Event):
    """A line of the trace."""

    text: str


class Recorder:
    """Collects events."""

    def __init__(self, events_max: int = EVENTS_MAX) -> None:
        self.events: deque[Event] = deque(maxlen=events_max)
        self.nodes: dict[int, bool] = {}
        """Nodes of the world, and whether each votes."""
        self.under_way: frozenset[int] = frozenset()
        """Numbers of frames that could still arrive when the run ended; what else did not arrive is lost."""
        self.happened = 0
        """Events in all, with those that are not kept any more."""
        self._frames = 0
        self._states: dict[int, NodeState] = {}

    @property
    def dropped(self) -> int:
        """Events that came before the kept ones."""
        return self.happened - len(self.events)

    def sent(self, at_us: int, source_id: int, target_id: int, frame: bytes) -> int:
        """A frame leaves; returns its number."""
        self._frames += 1
        self._add(Sent(at_us=at_us, node_id=source_id, target_id=target_id, number=self._frames, frame=frame))
        return self._frames

    def arrived(self, at_us: int, node_id: int, number: int) -> None:
        """A frame reaches its target."""
        self._add(Arrived(at_us=at_us, node_id=node_id, number=number))

    def state(self, at_us: int, node_id: int, state: NodeState) -> None:
        """How a node is now; kept when it is not as before."""
        if self._states.get(node_id) != state:
            self._states[node_id] = state
            self._add(Changed(at_us=at_us, node_id=node_id, state=state))

    def fault(self, at_us: int, node_id: int | None, kind: str) -> None:
        """Harm is done."""
        self._add(Fault(at_us=at_us, node_id=node_id, kind=kind))

    def note(self, at_us: int, node_id: int | None, text: str) -> None:
        """A line of the trace."""
        self._add(Note(at_us=at_us, node_id=node_id, text=text))

    def _add(self, event: Event) -> None:
        self.happened += 1
        self.events.append(event)

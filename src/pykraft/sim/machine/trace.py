"""The trace of a world: lines of fixed columns, two digests to compare two runs of a seed, and the page's events.

The last lines are kept to show what led to a failure; ``print_line`` is called with each line. The digest covers
all lines and every byte that arrived anywhere. The wordless digest leaves out the text of the lines, so rewording a
message changes the digest and not the wordless digest.

A world without a recorder pays nothing. Frames are kept as they were sent and decoded later
(`pykraft.sim.page.render`), so recording changes nothing in the run. Invariant: events are in the order in which they
happened, and an arrival refers to an earlier event of sending. Only the last events are kept.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

from pykraft.sim.machine.clock import Clock

EVENTS_MAX = 60_000
"""How many events one recorder keeps: several times as many as the longest world of the shipped scenarios has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """One node after an event; offsets are exclusive, and None when the node is down or does not know them."""

    role: str
    """Kafka's name of the state, or ``down``."""
    epoch: int
    leader_id: int | None
    vote: int | None
    """The vote that is durable, for ``disk_epoch``."""
    disk_epoch: int
    log_end: int | None
    flushed: int
    """The log end that a power loss now would leave."""
    high_watermark: int | None
    is_damaged: bool = False
    """True while the process knows that part of its log is lost."""
    voters: int | None = None
    """How many voters the node knows of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedEvent:
    """Something that happened at a node (None: to the whole world), and when in microseconds."""

    at_us: int
    node_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent(RecordedEvent):
    """A frame left this node; ``number`` identifies it."""

    number: int
    target_id: int
    frame: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived(RecordedEvent):
    """The frame with that number reached this node."""

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed(RecordedEvent):
    """The node has a new state."""

    state: NodeState


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultInjected(RecordedEvent):
    """A fault happened: its kind, as the report counts it."""

    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceLine(RecordedEvent):
    """A line of the trace."""

    text: str


class Recorder:
    """Collects events."""

    def __init__(self, events_max: int = EVENTS_MAX) -> None:
        self.events: deque[RecordedEvent] = deque(maxlen=events_max)
        self.nodes: dict[int, bool] = {}
        """By node id: whether the node is a voter."""
        self.under_way: frozenset[int] = frozenset()
        """Numbers of frames that could still arrive when the run ended; other frames without an arrival are lost."""
        self.happened = 0
        """Number of all events, including those that are no longer kept."""
        self._frames = 0
        self._states: dict[int, NodeState] = {}

    @property
    def dropped(self) -> int:
        """Number of events that are no longer kept."""
        return self.happened - len(self.events)

    def sent(self, at_us: int, source_id: int, target_id: int, frame: bytes) -> int:
        """Record that a frame leaves; returns its number."""
        self._frames += 1
        self._add(Sent(at_us=at_us, node_id=source_id, target_id=target_id, number=self._frames, frame=frame))
        return self._frames

    def arrived(self, at_us: int, node_id: int, number: int) -> None:
        """Record that a frame reaches its target."""
        self._add(Arrived(at_us=at_us, node_id=node_id, number=number))

    def state(self, at_us: int, node_id: int, state: NodeState) -> None:
        """Record how a node is now, if that has changed."""
        if self._states.get(node_id) != state:
            self._states[node_id] = state
            self._add(Changed(at_us=at_us, node_id=node_id, state=state))

    def fault(self, at_us: int, node_id: int | None, kind: str) -> None:
        """Record a fault."""
        self._add(FaultInjected(at_us=at_us, node_id=node_id, kind=kind))

    def note(self, at_us: int, node_id: int | None, text: str) -> None:
        """Record a line of the trace."""
        self._add(TraceLine(at_us=at_us, node_id=node_id, text=text))

    def _add(self, event: RecordedEvent) -> None:
        self.happened += 1
        self.events.append(event)


LINES_KEPT = 400
"""How many lines a failure shows."""
DIGEST_SIZE_BYTES = 16


class Trace:
    """Lines of time, node and text."""

    def __init__(
        self, clock: Clock, print_line: Callable[[str], None] | None = None, recorder: Recorder | None = None
    ) -> None:
        self._clock = clock
        self._print_line = print_line
        self._recorder = recorder
        self._digest = blake2b(digest_size=DIGEST_SIZE_BYTES)
        self._wordless = blake2b(digest_size=DIGEST_SIZE_BYTES)
        self.lines: deque[str] = deque(maxlen=LINES_KEPT)

    def note(self, node_id: int | None, text: str) -> None:
        """Add one line; ``node_id`` is None for what concerns no single node."""
        where = "  *" if node_id is None else f"{node_id:3}"
        line = f"{self._clock.now_us / 1e6:12.6f} {where}  {text}"
        self._digest.update(line.encode())
        self._wordless.update(f"{self._clock.now_us} {where} ".encode())
        self.lines.append(line)
        if self._print_line is not None:
            self._print_line(line)
        if self._recorder is not None:
            self._recorder.note(self._clock.now_us, node_id, text)

    def absorb(self, frame: bytes) -> None:
        """Add bytes that arrived somewhere to both digests; the lines do not show them."""
        self._digest.update(frame)
        self._wordless.update(b"%d frame " % self._clock.now_us)
        self._wordless.update(frame)

    @property
    def digest(self) -> str:
        """Equal for equal runs, in any process."""
        return self._digest.hexdigest()

    @property
    def wordless_digest(self) -> str:
        """Covers the time and node of each line, and each frame with its time, but not the text of a line."""
        return self._wordless.hexdigest()

"""A virtual network of TCP connections: each direction delivers frames in order and whole, or breaks.

Within a connection no frame is lost, duplicated or overtaken. On a stream these faults mean the following:

- *delay, slow link*: frames come late. The kernel sends a lost segment again, so a loss of one is a delay.
- *bandwidth*: a frame takes time for each of its bytes, and each end can be asked how much of it has arrived.
- *cut*: frames are kept back, and arrive when the link heals, unless the connection breaks meanwhile.
- *loss*: the connection breaks, and whatever was under way in either direction is lost.
- *duplication*: the connection breaks after a request was processed and before its answer came. The request is sent
  again on a new connection, and processed twice.
- *reordering*: between connections only. A connection breaks for its sender, and what it had sent still arrives,
  after frames of the next connection: nobody takes bytes back out of the receiver's kernel.

So an old Fetch can arrive long after its sender moved on. When a process closes a connection, or ends, its last frames
may or may not arrive; the other end learns of the close after them. Frames are delivered whole and without their length
prefix; reassembling pieces is the server's business.

Source: RFC 9293; TigerBeetle's packet simulator; FoundationDB's clogging; `pykraft.sim.scenario.scenario.LinkSettings`,
of which this is one draw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final, Protocol, TypeAlias

from pykraft.host.ports import ConnectionId
from pykraft.security.principal import ANONYMOUS, Principal
from pykraft.sim.machine.clock import Clock
from pykraft.sim.machine.trace import Recorder
from pykraft.sim.scenario.scenario import LinkSettings
from pykraft.sim.scenario.settings import UNLIMITED, SizeLimits, node_at
from pykraft.types import Buffer, Endpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """Latency of one hop in microseconds, and how often a frame takes ten times as long."""

    latency_us_min: int = 100
    latency_us_max: int = 2_000
    slow_probability: float = 0.01
    byte_us: int = 0
    """Microseconds per byte: a million over the bandwidth."""
    unanswered_probability: float = 0.0
    half_open_probability: float = 0.0
    dice: float = 0.0
    """Seed of the generators for packets that nobody answers and for narrow links; nothing else uses them."""

    @classmethod
    def draw(cls, links: LinkSettings, rng: Random) -> Weather:
        """Draw the weather of one world."""
        drawn = cls(
            latency_us_min=links.latency_us_min,
            latency_us_max=rng.choice(links.latency_us_max),
            slow_probability=links.slow_probability,
            byte_us=rng.choice(links.byte_us),
            unanswered_probability=links.unanswered_probability,
            half_open_probability=links.half_open_probability,
            dice=rng.random(),
        )
        narrow = Random(f"narrow {drawn.dice}")
        is_narrow = narrow.random() < links.narrow_probability
        return replace(drawn, byte_us=narrow.choice(links.narrow_byte_us)) if is_narrow else drawn


FRAME_LENGTH_SIZE_BYTES: Final = 4
BREAK_PROBABILITY: Final = 0.5
"""Probability that a connection that waited for its link to heal breaks instead."""
HALF_OPEN_US_MAX: Final = 3_000_000
"""How long the other end may take to notice that a machine has lost power."""
ABRUPT_PROBABILITY: Final = 0.5
"""Probability that the last frames of an end that closes are lost."""


class Station(Protocol):
    """One process on the network."""

    node_id: int
    """0 for a station that is not a node; a recording does not show it."""
    port: int
    """The port that others dial."""
    principal: Principal
    """Whom it proves to be."""

    def accepted(self, connection: ConnectionId) -> None:
        """Somebody connected to this station."""

    def connected(self, connection: ConnectionId) -> None:
        """A dial of this station succeeded."""

    def closed(self, connection: ConnectionId, *, is_refused: bool = False) -> None:
        """The other end closed the connection, it broke, or a dial failed; ``is_refused`` when nobody listens there."""

    def received(self, connection: ConnectionId, frame: bytes) -> None:
        """A whole frame arrived."""


@dataclass(frozen=True, slots=True)
class FrameUnderWay:
    """A frame under way: its first byte arrives at ``begun_us``, its last one at ``due_us``.

    ``number`` is its number in the recording.
    """

    begun_us: int
    due_us: int
    frame: bytes
    number: int

    def arrived_size_bytes(self, now_us: int) -> int:
        """How many of its bytes have arrived; the last one arrives with the frame."""
        if now_us <= self.begun_us or self.due_us == self.begun_us:
            return 0
        most = len(self.frame) - 1
        return min(most, len(self.frame) * (now_us - self.begun_us) // (self.due_us - self.begun_us))


@dataclass(slots=True, kw_only=True, eq=False)
class End:
    """One end of a connection: its station, the other end, and the frames that are under way."""

    connection: ConnectionId
    station: Station
    is_dialed: bool
    peer: End | None = None
    is_closed: bool = False
    """This end is closed; frames sent before are still under way, and the other end learns of the close after them."""
    is_held: bool = False
    """Its frames lie in a buffer until they are released."""
    is_arrived: bool = False
    """Its frames have passed the links already, so a cut does not hold them back."""
    outgoing: list[FrameUnderWay] = field(default_factory=list)
    free_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowness:
    """What a slow direction adds: microseconds for a frame, and for each of its bytes."""

    delay_us: int
    byte_us: int


Snag: TypeAlias = Callable[[End, bytes], bool]
"""Called with each frame before it goes out; returns True when it has acted on the frame, and is then removed."""
NOT_SLOW: Final = Slowness(delay_us=0, byte_us=0)


class Network:
    """All connections of a world."""

    def __init__(self, clock: Clock, rng: Random, weather: Weather, recorder: Recorder | None = None) -> None:
        self._clock = clock
        self._recorder = recorder
        self._rng = rng
        self._weather = weather
        self._silence = Random(weather.dice)
        self._ends: dict[ConnectionId, End] = {}
        self._closing: list[End] = []
        self._abandoned: set[ConnectionId] = set()
        self._stations: dict[int, Station] = {}
        self._cut: set[tuple[int, int]] = set()
        self._slow: dict[tuple[int, int], Slowness] = {}
        self._snags: dict[str, Snag] = {}
        self._next = 1
        self.refusing: set[tuple[int, int]] = set()
        """Source and target of dials that are refused, although the target's process listens."""
        self.size_limits: dict[int, SizeLimits] = {}
        """By node id; nodes that are not here have no limits."""

    def attach(self, station: Station) -> None:
        """Deliver dials of this port to the process from now on."""
        self._stations[station.node_id] = station

    def detach(self, station: Station, *, is_silent: bool = False) -> None:
        """The process has ended; the stations it was connected to learn of it after a while.

        Silent: the machine lost power, and frames it sent a moment ago are lost.
        """
        if self._stations.get(station.node_id) is station:  # another one may have its address by now
            del self._stations[station.node_id]
        for end in [end for end in self._ends.values() if end.station is station]:
            is_half_open = is_silent and self._silence.random() < self._weather.half_open_probability
            self._close(end, is_abrupt=is_silent, unnoticed_us=self._silence.randrange(HALF_OPEN_US_MAX) * is_half_open)

    def cut(self, source: int, target: int) -> None:
        """Hold back all frames in this direction."""
        self._cut.add((source, target))

    def mend(self, source: int, target: int) -> None:
        """Let this direction work again."""
        self._cut.discard((source, target))
        self._resume(lambda end: _direction(end) == (source, target))

    def heal(self) -> None:
        """Let all links work again: half of the connections that waited break, the others continue."""
        self._cut.clear()
        self._resume(lambda _: True)

    def slow(self, source: int, target: int, slowness: Slowness) -> None:
        """Slow down the frames of this direction from now on."""
        self._slow[source, target] = slowness

    def snag(self, kind: str, snag: Snag) -> None:
        """Apply this snag to a coming frame; it replaces an unused one of the same kind."""
        self._snags[kind] = snag

    def calm(self) -> None:
        """Remove snags and slowness, and release all frames that are held back."""
        self._snags.clear()
        self._slow.clear()
        self.refusing.clear()
        for end in [*self._ends.values(), *self._closing]:
            if end.is_held:
                self.release(end)

    def release(self, end: End) -> None:
        """Let the frames of this end arrive, even over a link that was cut since."""
        end.is_held, end.is_arrived = False, True
        self._flow(end)

    def sever(self, end: End) -> None:
        """Break the connection: both ends learn of it, and frames under way are lost."""
        peer = end.peer
        for each in (end, peer):
            if each is not None:
                each.outgoing.clear()
        self._clock.after(self._latency_us(), lambda: self._learn(end))
        if peer is not None:
            self._clock.after(self._latency_us(), lambda: self._learn(peer))

    def break_between(self, source: int, target: int) -> None:
        """Break all connections that the source dialed to the target."""
        for end in [end for end in self._ends.values() if end.is_dialed and end.peer is not None]:
            if _direction(end) == (source, target):
                self.sever(end)

    def abandon(self, end: End) -> None:
        """Break the connection for this end only; its frames are held back and can still be released."""
        self._ends.pop(end.connection, None)
        self._abandoned.add(end.connection)
        end.is_closed = end.is_held = True
        self._closing.append(end)
        self._clock.after(self._latency_us(), lambda: self._notify_abandoned(end))

    @property
    def is_usual(self) -> bool:
        """True when no direction is cut or slowed down, and nobody who listens refuses a connection."""
        return not (self._cut or self.refusing) and all(slowness == NOT_SLOW for slowness in self._slow.values())

    @property
    def byte_us(self) -> int:
        """Microseconds that each byte takes on every link."""
        return self._weather.byte_us

    @property
    def cut_links(self) -> int:
        """How many directions are cut now."""
        return len(self._cut)

    def under_way(self) -> frozenset[int]:
        """The recorder's numbers of the frames that can still arrive."""
        ends = [
            end for end in (*self._ends.values(), *self._closing) if end.peer is not None and not end.peer.is_closed
        ]
        return frozenset(sent.number for end in ends for sent in end.outgoing)

    def received_size_bytes(self, connection: ConnectionId) -> tuple[int, int]:
        """How much of an unfinished frame has reached this end, and its whole size; see `Ports`."""
        end = self._ends.get(connection)
        source = end.peer if end is not None else None
        if source is None or source.peer is None or not source.outgoing or self._is_stuck(source):
            return 0, 0
        sent = source.outgoing[0]
        arrived_bytes = sent.arrived_size_bytes(self._clock.now_us)
        return (arrived_bytes, len(sent.frame)) if arrived_bytes else (0, 0)

    def unsent_size_bytes(self, connection: ConnectionId) -> int:
        """How many bytes this end has sent that have not arrived; see `Ports`."""
        end = self._ends.get(connection)
        now_us = self._clock.now_us
        return sum(len(sent.frame) - sent.arrived_size_bytes(now_us) for sent in end.outgoing) if end else 0

    def principal_at(self, connection: ConnectionId) -> Principal:
        """Who is at the other end."""
        end = self._ends.get(connection)
        return ANONYMOUS if end is None or end.peer is None else end.peer.station.principal

    def dial(self, station: Station, endpoint: Endpoint) -> ConnectionId:
        """Begin to connect. The port names a node and its present address; a former address refuses."""
        near = self._end(station, is_dialed=True)
        self._clock.after(self._latency_us(), lambda: self._establish(near, endpoint.port))
        return near.connection

    def send(self, connection: ConnectionId, parts: Sequence[Buffer]) -> None:
        """Send one frame, if the connection still stands."""
        end = self._ends.get(connection)
        if end is None or end.peer is None:
            return
        frame, number = b"".join(parts)[FRAME_LENGTH_SIZE_BYTES:], 0
        source_id, target_id = end.station.node_id, end.peer.station.node_id
        if self._recorder is not None and {source_id, target_id} <= self._recorder.nodes.keys():
            number = self._recorder.sent(self._clock.now_us, source_id, target_id, frame)
        slowness = self._slow.get(_direction(end), NOT_SLOW) if self._slow else NOT_SLOW
        latency_us = self._latency_us() + slowness.delay_us
        begun_us = max(end.free_us, self._clock.now_us + latency_us)
        end.free_us = begun_us + len(frame) * max(slowness.byte_us, self._weather.byte_us)
        end.outgoing.append(FrameUnderWay(begun_us, end.free_us, frame, number))
        self._clock.after(end.free_us - self._clock.now_us, lambda: self._flow(end))
        for kind, snag in list(self._snags.items()) if self._snags else ():
            if snag(end, frame):
                self._snags.pop(kind, None)
                break

    def unsent_between(self, source: int, target: int) -> int:
        """How many bytes of answers from one node to another have not arrived."""
        ends = [end for end in self._ends.values() if end.peer is not None and not end.is_dialed]
        return sum(self.unsent_size_bytes(end.connection) for end in ends if _direction(end) == (source, target))

    def close(self, connection: ConnectionId) -> None:
        """Close this end; the other end learns of it after a while."""
        self._abandoned.discard(connection)
        end = self._ends.get(connection)
        if end is not None:
            self._close(end, is_abrupt=self._rng.random() < ABRUPT_PROBABILITY)

    def _establish(self, near: End, port: int) -> None:
        if near.connection not in self._ends:
            return
        target_id, source_id = node_at(port), near.station.node_id
        target = self._stations.get(target_id)
        is_there = target is not None and target.port == port and (source_id, target_id) not in self.refusing
        is_cut = bool({(source_id, target_id), (target_id, source_id)} & self._cut)
        if target is None or not is_there or is_cut:
            if self._silence.random() < self._weather.unanswered_probability:
                return  # No error either: the dialer has to time out.
            del self._ends[near.connection]
            near.station.closed(near.connection, is_refused=not is_cut)
            return
        far = self._end(target, is_dialed=False)
        near.peer, far.peer = far, near
        target.accepted(far.connection)
        near.station.connected(near.connection)

    def _flow(self, end: End) -> None:
        peer = end.peer
        if peer is None or self._is_stuck(end):
            return
        if peer.is_closed or not end.outgoing:
            self._end_of_stream(end)
            return
        sent = end.outgoing[0]
        if sent.due_us > self._clock.now_us and not end.is_arrived:
            return
        del end.outgoing[0]
        if end.outgoing or end.is_closed:
            self._clock.after(self._weather.latency_us_min, lambda: self._flow(end))
        if len(sent.frame) > self._size_bytes_max(peer):
            self.sever(end)  # The server closes the connection, too, when a frame is too large.
            return
        if self._recorder is not None and sent.number:
            self._recorder.arrived(self._clock.now_us, peer.station.node_id, sent.number)
        peer.station.received(peer.connection, sent.frame)

    def _close(self, end: End, *, is_abrupt: bool, unnoticed_us: int = 0) -> None:
        self._ends.pop(end.connection, None)
        end.is_closed = True
        if is_abrupt and not end.is_held:
            end.outgoing.clear()
        if end.peer is not None:
            self._closing.append(end)
            delay_us = max(self._latency_us(), end.free_us - self._clock.now_us)
            self._clock.after(delay_us + unnoticed_us, lambda: self._flow(end))

    def _end_of_stream(self, end: End) -> None:
        """All frames have arrived, or the receiver is closed: if this end is closed, the other one learns of it now."""
        if end.is_closed:
            if end in self._closing:
                self._closing.remove(end)
            if end.peer is not None:
                self._learn(end.peer)
                end.peer = None

    def _resume(self, is_meant: Callable[[End], bool]) -> None:
        waiting = [end for end in (*self._ends.values(), *self._closing) if end.outgoing or end.is_closed]
        for end in waiting:
            if end.peer is None or not is_meant(end) or self._is_stuck(end):
                continue
            if self._rng.random() < BREAK_PROBABILITY and not end.is_closed:
                self._close(end, is_abrupt=True)
                self._notify(end)
            else:
                self._clock.after(self._latency_us(), lambda end=end: self._flow(end))  # type: ignore[misc]

    def _size_bytes_max(self, end: End) -> int:
        limits = self.size_limits.get(end.station.node_id, UNLIMITED)
        return limits.answer_bytes if end.is_dialed else limits.request_bytes

    def _is_stuck(self, end: End) -> bool:
        return end.is_held or (not end.is_arrived and _direction(end) in self._cut)

    def _learn(self, end: End) -> None:
        if self._ends.pop(end.connection, None) is not None:
            end.is_closed = True
            end.peer = None
            end.outgoing.clear()
            self._notify(end)

    def _notify_abandoned(self, end: End) -> None:
        if end.connection in self._abandoned:
            self._abandoned.discard(end.connection)
            self._notify(end)

    def _notify(self, end: End) -> None:
        if self._stations.get(end.station.node_id) is end.station:
            end.station.closed(end.connection)

    def _end(self, station: Station, *, is_dialed: bool) -> End:
        end = End(connection=ConnectionId(self._next), station=station, is_dialed=is_dialed)
        self._next += 1
        self._ends[end.connection] = end
        return end

    def _latency_us(self) -> int:
        weather = self._weather
        latency_us = self._rng.randint(weather.latency_us_min, weather.latency_us_max)
        return latency_us * 10 if self._rng.random() < weather.slow_probability else latency_us


def _direction(end: End) -> tuple[int, int]:
    assert end.peer is not None
    return end.station.node_id, end.peer.station.node_id

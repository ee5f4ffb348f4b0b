"""A virtual network of TCP-like connections: each direction is in order and whole, or broken.

A cut link holds what is sent over it and gives it out late when the link heals, as retransmission does,
unless the connection breaks meanwhile: so an old Fetch can arrive long after its sender moved on. Frames are
delivered whole, without their length; cutting them into pieces is the server's business.

Source: TigerBeetle's packet simulator; FoundationDB's clogging.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from pykraft.host.ports import ConnectionId
from pykraft.sim.clock import Clock
from pykraft.sim.recorder import Recorder
from pykraft.sim.scenario import Links
from pykraft.types import Buffer, Endpoint

FRAME_LENGTH_SIZE_BYTES = 4


class Station(Protocol):
    """One process on the network."""

    node_id: int

    def accepted(self, connection: ConnectionId) -> None:
        """Somebody connected."""
        ...

    def connected(self, connection: ConnectionId) -> None:
        """An own dial succeeded."""
        ...

    def closed(self, connection: ConnectionId) -> None:
        """A connection broke or the other end closed it."""
        ...

    def received(self, connection: ConnectionId, frame: bytes) -> None:
        """A whole frame came."""
        ...


@dataclass(slots=True, kw_only=True, eq=False)
class _End:
    """One end of a connection: whose it is, the other end, and what waits to go out."""

    connection: ConnectionId
    station: Station
    peer: _End | None = None
    outgoing: list[tuple[bytes, int]] = field(default_factory=list)
    """Frames, and what the recorder calls them."""
    free_us: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """Latency of one hop in microseconds, and how often a frame takes ten times as long."""

    latency_us_min: int = 100
    latency_us_max: int = 2_000
    slow_probability: float = 0.01

    @classmethod
    def draw(cls, links: Links, rng: Random) -> Weather:
        """The weather of one world."""
        return cls(
            latency_us_min=links.latency_us_min,
            latency_us_max=rng.choice(links.latency_us_max),
            slow_probability=links.slow_probability,
        )


class Network:
    """All connections of a world."""

    def __init__(self, clock: Clock, rng: Random, weather: Weather, recorder: Recorder | None = None) -> None:
        self._clock = clock
        self._recorder = recorder
        self._rng = rng
        self._weather = weather
        self._ends: dict[ConnectionId, _End] = {}
        self._stations: dict[int, Station] = {}
        self._cut: set[tuple[int, int]] = set()
        self._next = 1

    def attach(self, station: Station) -> None:
        """A process listens on its node's address from now on."""
        self._stations[station.node_id] = station

    def detach(self, station: Station) -> None:
        """The process is gone; whoever it was connected to learns of it after a while."""
        del self._stations[station.node_id]
        for end in [end for end in self._ends.values() if end.station is station]:
            self._break(end)

    def cut(self, source: int, target: int) -> None:
        """Hold back what goes in this direction."""
        self._cut.add((source, target))

    def heal(self) -> None:
        """All links work again: half of the connections that had to wait break, the rest go on."""
        self._cut.clear()
        for end in list(self._ends.values()):
            if end.outgoing and end.connection in self._ends:
                if self._rng.random() < 0.5:
                    self._break(end, tell_own_side=True)
                else:
                    self._clock.after(self._latency_us(), lambda end=end: self._flow(end))  # type: ignore[misc]

    @property
    def cut_links(self) -> int:
        """How many directions are held back now."""
        return len(self._cut)

    def dial(self, station: Station, endpoint: Endpoint) -> ConnectionId:
        """Begin to connect: the port is the node's id."""
        near = self._end(station)
        self._clock.after(self._latency_us(), lambda: self._establish(near, endpoint.port))
        return near.connection

    def send(self, connection: ConnectionId, parts: Sequence[Buffer]) -> None:
        """Put one frame on the wire, if the connection still stands."""
        end = self._ends.get(connection)
        if end is None or end.peer is None:
            return
        frame, number = b"".join(parts)[FRAME_LENGTH_SIZE_BYTES:], 0
        if self._recorder is not None:
            source_id, target_id = end.station.node_id, end.peer.station.node_id
            number = self._recorder.sent(self._clock.now_us, source_id, target_id, frame)
        end.outgoing.append((frame, number))
        end.free_us = max(end.free_us, self._clock.now_us + self._latency_us())
        self._clock.after(end.free_us - self._clock.now_us, lambda: self._flow(end))

    def close(self, connection: ConnectionId) -> None:
        """Close an own end; the other learns of it after a while."""
        end = self._ends.get(connection)
        if end is not None:
            self._break(end)

    def _establish(self, near: _End, target_id: int) -> None:
        if near.connection not in self._ends:
            return
        target = self._stations.get(target_id)
        source_id = near.station.node_id
        if target is None or (source_id, target_id) in self._cut or (target_id, source_id) in self._cut:
            del self._ends[near.connection]
            near.station.closed(near.connection)
            return
        far = self._end(target)
        near.peer, far.peer = far, near
        target.accepted(far.connection)
        near.station.connected(near.connection)

    def _flow(self, end: _End) -> None:
        """Deliver the next frame of this direction, unless it is held back or nobody is there to take it."""
        peer = end.peer
        if peer is None or not end.outgoing or end.connection not in self._ends:
            return
        if peer.connection not in self._ends:
            return
        if (end.station.node_id, peer.station.node_id) in self._cut:
            return
        frame, number = end.outgoing.pop(0)
        if end.outgoing:
            self._clock.after(self._weather.latency_us_min, lambda: self._flow(end))
        if self._recorder is not None:
            self._recorder.arrived(self._clock.now_us, peer.station.node_id, number)
        peer.station.received(peer.connection, frame)

    def _break(self, end: _End, *, tell_own_side: bool = False) -> None:
        self._ends.pop(end.connection, None)
        peer, end.peer = end.peer, None
        if self._recorder is not None:
            self._record_loss(end, self._recorder)
            if peer is not None:
                self._record_loss(peer, self._recorder)
        if tell_own_side:
            end.station.closed(end.connection)
        if peer is not None:
            self._clock.after(self._latency_us(), lambda: self._learn(peer))

    def _record_loss(self, end: _End, recorder: Recorder) -> None:
        for _, number in end.outgoing:
            recorder.lost(self._clock.now_us, end.station.node_id, number)

    def _learn(self, end: _End) -> None:
        if self._ends.pop(end.connection, None) is not None:
            end.peer = None
            end.station.closed(end.connection)

    def _end(self, station: Station) -> _End:
        end = _End(connection=ConnectionId(self._next), station=station)
        self._next += 1
        self._ends[end.connection] = end
        return end

    def _latency_us(self) -> int:
        weather = self._weather
        latency_us = self._rng.randint(weather.latency_us_min, weather.latency_us_max)
        return latency_us * 10 if self._rng.random() < weather.slow_probability else latency_us

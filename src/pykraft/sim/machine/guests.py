"""Connections of code that shares a process with the host, such as a program's own requests to other nodes.

Their frames share the links with the host's, and end with the process. The host never hears of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from pykraft.host.ports import ConnectionId
from pykraft.sim.machine.network import Network, Station
from pykraft.types import Buffer, Endpoint


class ProcessGuest(Protocol):
    """The owner of one connection."""

    def connected(self) -> None:
        """The dial succeeded."""
        ...

    def closed(self) -> None:
        """The dial failed, or the connection is gone."""
        ...

    def received(self, frame: bytes) -> None:
        """A whole frame arrived."""
        ...


class Guests:
    """The guests of one process, by their connections."""

    def __init__(self, station: Station, network: Network) -> None:
        self._station = station
        self._network = network
        self._guests: dict[ConnectionId, ProcessGuest] = {}

    def dial(self, guest: ProcessGuest, endpoint: Endpoint) -> ConnectionId:
        """Connect for this guest."""
        connection = self._network.dial(self._station, endpoint)
        self._guests[connection] = guest
        return connection

    def send(self, connection: ConnectionId, parts: Sequence[Buffer]) -> None:
        """Send a frame."""
        self._network.send(connection, parts)

    def close(self, connection: ConnectionId) -> None:
        """Close a connection; its guest hears nothing more of it."""
        if self._guests.pop(connection, None) is not None:
            self._network.close(connection)

    def connected(self, connection: ConnectionId) -> bool:
        """Tell the guest, if it is one's."""
        guest = self._guests.get(connection)
        if guest is not None:
            guest.connected()
        return guest is not None

    def closed(self, connection: ConnectionId) -> bool:
        """As `connected`."""
        guest = self._guests.pop(connection, None)
        if guest is not None:
            guest.closed()
        return guest is not None

    def received(self, connection: ConnectionId, frame: bytes) -> bool:
        """As `connected`."""
        guest = self._guests.get(connection)
        if guest is not None:
            guest.received(frame)
        return guest is not None

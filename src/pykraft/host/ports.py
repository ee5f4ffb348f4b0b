"""What a host asks of the world around it, and nothing more.

The server (asyncio, sockets, threads) and the simulator (virtual time, network and disk) each implement
`Ports`; neither knows the other. All calls come from one thread, the host's; all answers come back as calls
of the host on that same thread, never from inside a `Ports` call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NewType, Protocol, TypeVar

from pykraft.log.lane import Job
from pykraft.types import Buffer, Endpoint

ConnectionId = NewType("ConnectionId", int)
"""One TCP connection in either direction, never used twice within a process."""
T = TypeVar("T")
ABOUT_CONNECTIONS: Final = ("closing connection", "cannot dial", "a connection failed")
"""How lines begin that whoever can connect may cause; the world may leave some of them out."""


class Ports(Protocol):
    """The world as one node sees it. No call blocks and none raises for what a peer or the disk did."""

    def dial(self, endpoint: Endpoint) -> ConnectionId:
        """Begin to connect; `Host.on_connected` or `Host.on_closed` follows."""
        ...

    def send(self, connection: ConnectionId, parts: Sequence[Buffer]) -> None:
        """Write one whole frame, its length included; ignored when the connection is already closed."""
        ...

    def received_size_bytes(self, connection: ConnectionId) -> tuple[int, int]:
        """How much of an unfinished frame has come, and how much it will be; (0, 0) when there is none."""
        ...

    def unsent_size_bytes(self, connection: ConnectionId) -> int:
        """Bytes that were given to `send` and that the other machine has not confirmed, as far as can be told."""
        ...

    def close(self, connection: ConnectionId) -> None:
        """Close at once; no `Host.on_closed` follows."""
        ...

    def submit(self, job: Job) -> None:
        """Queue a job of the ordered lane; `Host.on_io` follows when it and all before it are durable."""
        ...

    def submit_read(self, read: Callable[[], T], then: Callable[[T], None]) -> None:
        """Run ``read`` on the bulk lane, then ``then`` with its result on the host's thread.

        An exception of ``read`` stops the node like a failed write.
        """
        ...

    def wake_at(self, mono_ms: int | None) -> None:
        """Call `Host.on_tick` at this time; replaces the former one. None: no wish."""
        ...

    def report(self, text: str, *, is_alarm: bool = False) -> None:
        """One line for the operator; an alarm calls for action."""
        ...

    def stop(self, error: Exception | None) -> None:
        """The host has ended: gracefully (None) or with what made going on unsafe."""
        ...

"""What a host needs from its environment.

The server (asyncio, sockets, threads) and the simulator (virtual time, network and disk) each implement `Ports`;
neither knows the other. All calls come from the host's thread. All answers come back as calls of the host on that
thread, never from inside a `Ports` call.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NewType, Protocol, TypeVar

from pykraft.core.effects import Report
from pykraft.log.lane import Job
from pykraft.security.principal import RemoteEnd
from pykraft.types import Buffer, Endpoint

T = TypeVar("T")
ConnectionId = NewType("ConnectionId", int)
"""One TCP connection in either direction; ids are never reused within a process."""
AT_ONCE_MS: Final = 0
"""For `Ports.wake_at`: a time that is over, so that the call comes as soon as possible."""


@dataclass(eq=False)
class CheckInSteps:
    """A check of what a stranger sent, in steps of about a millisecond; ``then`` gets its result.

    Before each step, the check of the lowest ``rank`` is chosen anew. One ``is_doubtful`` takes at most half of the
    time, also while nothing else is to be done. One that is cancelled ends, and ``then`` is not called.
    """

    steps: Generator[None, None, Any]
    then: Callable[[Any], None]
    rank: tuple[int, ...]
    is_doubtful: bool = False
    is_cancelled: bool = False

    def ended(self, result: object) -> None:
        """On the host's thread, which may have cancelled it since."""
        if not self.is_cancelled:
            self.then(result)


def run_steps(steps: Generator[None, None, T]) -> T:
    """All steps at once; what they end with."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: T = end.value
            return found


class Ports(Protocol):
    """The environment as one node sees it. No call blocks, and none raises because of a peer or the disk."""

    def dial(self, endpoint: Endpoint) -> ConnectionId:
        """Begin to connect; `Host.on_connected` or `Host.on_closed` follows."""

    def send(self, connection: ConnectionId, parts: Sequence[Buffer]) -> None:
        """Write one whole frame, its length included; ignored when the connection is already closed."""

    def received_size_bytes(self, connection: ConnectionId) -> tuple[int, int]:
        """How much of an incomplete frame has arrived, and its full size; (0, 0) when there is none."""

    def unsent_size_bytes(self, connection: ConnectionId) -> int:
        """Bytes passed to `send` that the other machine has not acknowledged, as far as is known."""

    def close(self, connection: ConnectionId) -> None:
        """Close at once; no `Host.on_closed` follows."""

    def submit(self, job: Job) -> None:
        """Queue a job of the ordered lane; `Host.on_io` follows when it and all earlier ones are durable."""

    def submit_read(self, read: Callable[[], T], then: Callable[[T], None]) -> None:
        """Run ``read`` on the bulk lane, then ``then`` with its result on the host's thread.

        An exception of ``read`` stops the node like a failed write.
        """

    def submit_check(self, check: CheckInSteps) -> None:
        """Carry out a check on a lane of its own, which delays nothing else; its result comes on the host's thread.

        An exception of its steps stops the node.
        """

    def wake_at(self, mono_ms: int | None) -> None:
        """Call `Host.on_tick` at this time; replaces the previous request. None: no call needed."""

    def report(self, report: Report) -> None:
        """Log one line for the operator."""

    def stop(self, error: Exception | None) -> None:
        """The host has ended: gracefully (None), or because of an error that makes it unsafe to continue."""


class Dialer(Protocol):
    """A part of a host that dials: it hears what becomes of its connections."""

    def on_connected(self, connection: ConnectionId, end: RemoteEnd) -> None:
        """The dial succeeded."""

    def on_closed(self, connection: ConnectionId, *, is_refused: bool = False, reason: str = "") -> None:
        """The dial failed, or the connection broke."""

    def on_frame(self, connection: ConnectionId, data: Buffer) -> None:
        """A whole frame arrived."""

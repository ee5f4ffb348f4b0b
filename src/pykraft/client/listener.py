"""The application's side of a node: an object that gets committed records and leader changes, or waits for a leader.

The watch for leaders listens to the host from the log end on, so it costs no reads. Invariant: the next leader change,
or the end of the node, wakes every waiter, which then reads the leader itself.

Source: Kafka's ``RaftClient.Listener``.
"""

import asyncio
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from typing import Final, Generic, Protocol, TypeVar

from pykraft.client.leadership import LeaderAndEpoch
from pykraft.client.life import NodeLoops
from pykraft.client.reader import Reader
from pykraft.errors import UsageError
from pykraft.host.delivery import CommittedBatch
from pykraft.host.host import Host
from pykraft.record_list import check_records
from pykraft.types import Epoch, NodeId


class LeaderWatch:
    """A listener of the host on the node's side, an event on the application's side."""

    def __init__(self, loops: NodeLoops) -> None:
        self._loops = loops
        self._news = asyncio.Event()

    def attach(self, host: Host) -> None:
        """On the node's side: start listening."""
        host.register(self, host.status.log_end_offset)

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """See `pykraft.host.delivery.HostListener`; ignores records."""

    def on_leader_change(self, epoch: Epoch, leader_id: NodeId | None) -> None:
        """See `pykraft.host.delivery.HostListener`."""
        del epoch, leader_id
        self._loops.to_application(self.wake)

    def wake(self) -> None:
        """On the application's side: wake all waiters."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    async def wait(self) -> None:
        """Wait for the next leader change, or the end of the node."""
        await self._news.wait()


T = TypeVar("T")
_R_co = TypeVar("_R_co", covariant=True)
REQUIRED: Final = ("handle_commit", "handle_leader_change")
BEGIN_SHUTDOWN: Final = "begin_shutdown"
LOAD_SNAPSHOT: Final = "handle_load_snapshot"
LOAD_BOOTSTRAP: Final = "handle_load_bootstrap"
SAVE_SNAPSHOT: Final = "handle_save_snapshot"


class StableRecords(Generic[_R_co]):
    """Records of a snapshot that later commits do not change, for instance of a copy of the containers of a state.

    A listener that returns them from ``handle_save_snapshot`` gets further commits while they are written.
    """

    def __init__(self, records: Iterable[_R_co]) -> None:
        """A generator may make the records later: from what does not change."""
        check_records(records)
        self._records = records

    def __iter__(self) -> Iterator[_R_co]:
        return iter(self._records)


class Listener(Protocol[T]):
    """Called on the application's loop, one call at a time; each method may be plain or ``async``.

    The next call comes when the previous one is done. If a method raises, the node ends with that error.

    Four more methods are optional. ``begin_shutdown()`` is called when the node begins to shut down; more calls may
    follow.

    ``handle_load_snapshot(reader)`` gets a `pykraft.client.StateReader` with a state that replaces everything before
    it: first of all if there is a snapshot, and whenever this node got a snapshot instead of records. The next commit
    begins where the snapshot ends. The reader is closed when the call is done. Without this method a listener begins at
    the log start, and a node that must give it a snapshot ends.

    ``handle_save_snapshot()`` returns the records of the current state, from which ``handle_load_snapshot`` of any node
    can build the same state: an iterable, an async iterable, or an awaitable of one. It is called when a snapshot is
    due; the listener's next call comes when all records are written, or at once if they are
    `StableRecords`. Only one listener of a node may have it.

    ``handle_load_bootstrap(reader)`` gets the checkpoint that the directory was formatted with, before the commit that
    begins at offset 0. The last two require ``handle_load_snapshot``.
    """

    def handle_commit(self, reader: Reader[T], /) -> Awaitable[None] | None:
        """Handle the next committed batches: in order, without a gap, each exactly once."""
        ...

    def handle_leader_change(self, leader_and_epoch: LeaderAndEpoch, /) -> Awaitable[None] | None:
        """Handle a higher epoch, or the news of its leader.

        The listener hears that this node leads only after it got everything that was committed before: it then has the
        complete committed state.
        """
        ...


def has_method(listener: object, name: str) -> bool:
    """Whether the listener has a callable attribute with this name."""
    return callable(getattr(listener, name, None))


def check_listener(listener: object) -> None:
    """Refuse an object that is not a listener. Errors: UsageError naming the method that is missing."""
    if isinstance(listener, type):
        raise UsageError(f"{listener!r} is a class: register an object of it")
    for name in REQUIRED:
        if not has_method(listener, name):
            raise UsageError(f"{listener!r} is not a listener: it has no method {name}")
    for name in (LOAD_BOOTSTRAP, SAVE_SNAPSHOT):
        if has_method(listener, name) and not has_method(listener, LOAD_SNAPSHOT):
            raise UsageError(f"{listener!r} has a method {name}, so it also needs {LOAD_SNAPSHOT}")

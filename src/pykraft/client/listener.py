"""The application's side of a node: what is called with committed records and with news of leaders.

Owns the protocol and the check that an object keeps it. It refuses to know when a listener is called; that is told in
`pykraft.client.subscription`.

Source: Kafka's ``RaftClient.Listener``.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final, Protocol, TypeVar

from pykraft.client.leadership import LeaderAndEpoch
from pykraft.client.reader import Reader
from pykraft.errors import UsageError

T = TypeVar("T")
REQUIRED: Final = ("handle_commit", "handle_leader_change")
BEGIN_SHUTDOWN: Final = "begin_shutdown"
LOAD_SNAPSHOT: Final = "handle_load_snapshot"
LOAD_BOOTSTRAP: Final = "handle_load_bootstrap"
SAVE_SNAPSHOT: Final = "handle_save_snapshot"


class Listener(Protocol[T]):
    """Called on the application's loop, one call at a time; each method may be plain or ``async``.

    The next call comes when the former one is done. A method that raises stops the node with what it raised.

    Four more are optional. ``begin_shutdown()`` is called when the node begins to leave; calls may still follow.

    ``handle_load_snapshot(reader)`` is given a `pykraft.client.StateReader` with the state that takes the place of all
    that came before: at first when there is a snapshot, and whenever this node got one in the place of records. The
    next commit begins where it ends. The reader is closed when the call is done. Without this method a listener begins
    at the log start, and a node that must give it a snapshot ends.

    ``handle_save_snapshot()`` returns the records of the state as it is now, which ``handle_load_snapshot`` of any node
    can make the same state of: an iterable, an async one, or an awaitable of one. It is called when a snapshot is due;
    the next call of the listener comes when all records are written. One listener of a node has it.

    ``handle_load_bootstrap(reader)`` is given the checkpoint that the directory was formatted with, before the commit
    that begins at offset 0. These two need the first.
    """

    def handle_commit(self, reader: Reader[T], /) -> Awaitable[None] | None:
        """The next committed batches, in order and without a gap, each exactly once."""
        ...

    def handle_leader_change(self, leader_and_epoch: LeaderAndEpoch, /) -> Awaitable[None] | None:
        """The epoch rose, or its leader became known.

        That this node leads is told only when the listener was given everything that was committed before: it then
        holds the complete committed state.
        """
        ...


def has_method(listener: object, name: str) -> bool:
    """Whether it has what may be called by this name."""
    return callable(getattr(listener, name, None))


def check_listener(listener: object) -> None:
    """Refuse what is no listener. Errors: UsageError naming the method that is missing."""
    if isinstance(listener, type):
        raise UsageError(f"{listener!r} is a class: register an object of it")
    for name in REQUIRED:
        if not has_method(listener, name):
            raise UsageError(f"{listener!r} is no listener: it has no method {name}")
    for name in (LOAD_BOOTSTRAP, SAVE_SNAPSHOT):
        if has_method(listener, name) and not has_method(listener, LOAD_SNAPSHOT):
            raise UsageError(f"{listener!r} has a method {name}, and so needs one {LOAD_SNAPSHOT}")

"""Keeps the journal of a cluster outside its nodes: what they tell on their pipes, written down as it arrives.

Owns the reading ends of the pipes, one thread for each, and one journal for all nodes. Invariant: what a node told
before it was killed is in the journal, since the bytes in a pipe outlive their writer; half a line is not: a node that
died within it had not told. Whoever needs something waits on the journal, not on the clock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Condition, Thread
from typing import TypeVar

from pykraft.client.journal import Acknowledged, Event, Led, Started, parse_event
from pykraft.errors import LocalQuorumError, ProtocolError
from pykraft.local.child import WAIT_TIMEOUT_S, Child

T = TypeVar("T")

ALIVE_CHECK_INTERVAL_S = 0.2
QUIET_S = 0.5
"""Much longer than a commit takes: a journal that was quiet for so long has heard of all that was in flight."""


class JournalKeeper:
    """The journal in ``path`` and in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._events: list[Event] = []
        self._faults: list[str] = []
        self._changed = Condition()

    def attach(self, descriptor: int) -> None:
        """Read this pipe until its writers are gone; the descriptor is closed then."""
        Thread(target=self._read, args=(descriptor,), name=f"journal-{descriptor}", daemon=True).start()

    def mark(self) -> int:
        """Where the journal ends now; what was told later is found with ``since``."""
        with self._changed:
            return len(self._events)

    def events(self, *, since: int = 0) -> list[Event]:
        """What was told so far. Errors: LocalQuorumError when a line was none."""
        with self._changed:
            if self._faults:
                raise LocalQuorumError(self._faults[0])
            return self._events[since:]

    @property
    def end_offset(self) -> int:
        """The offset after the last record that was acknowledged, 0 before the first; all below it is committed."""
        return max((said.end_offset for said in self.acknowledgements()), default=0)

    def acknowledgements(self, *, since: int = 0) -> list[Acknowledged]:
        """What was acknowledged so far."""
        return [event for event in self.events(since=since) if isinstance(event, Acknowledged)]

    def wait_for(
        self,
        look: Callable[[Sequence[Event]], T | None],
        what: str,
        *,
        since: int = 0,
        timeout_s: float = WAIT_TIMEOUT_S,
        alive: Sequence[Child] = (),
    ) -> T:
        """The first result of ``look`` at the events from ``since`` on that is neither None nor False.

        Errors: LocalQuorumError with ``what`` when the time is over, and when one that is to stay ``alive`` ended.
        """
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                if self._faults:
                    raise LocalQuorumError(self._faults[0])
                result = look(self._events[since:])
                if result is not None and result is not False:
                    return result
                ended = [f"{child.name} ended with {child.status}" for child in alive if child.status is not None]
                if ended:
                    raise LocalQuorumError(f"while waiting for {what}: {', '.join(ended)}")
                if time.monotonic() >= deadline:
                    raise LocalQuorumError(f"waited {timeout_s:g} s for {what}")
                self._changed.wait(ALIVE_CHECK_INTERVAL_S)

    def wait_for_started(self, node_id: int, *, since: int, process: Child) -> None:
        """Wait until this node says that it serves; ``since`` is a mark from before its start."""

        def look(events: Sequence[Event]) -> bool:
            return any(isinstance(event, Started) and event.node == node_id for event in events)

        self.wait_for(look, f"{process.name} to serve", since=since, alive=[process])

    def leader_id(self) -> int:
        """The node that said last that it leads. Errors: LocalQuorumError before the first."""
        leaders = [event.node for event in self.events() if isinstance(event, Led)]
        if not leaders:
            raise LocalQuorumError("no node has led yet")
        return leaders[-1]

    def wait_for_leader(self, *, since: int, alive: Sequence[Child] = ()) -> Led:
        """The first node that says it leads after this mark."""

        def look(events: Sequence[Event]) -> Led | None:
            return next((event for event in events if isinstance(event, Led)), None)

        return self.wait_for(look, "a leader", since=since, alive=alive)

    def wait_for_acknowledged(
        self, count: int, *, since: int, except_by: int | None = None, timeout_s: float = WAIT_TIMEOUT_S
    ) -> None:
        """Wait until so many records were acknowledged after this mark, by others than node ``except_by``."""

        def look(events: Sequence[Event]) -> bool:
            said = [event for event in events if isinstance(event, Acknowledged) and event.node != except_by]
            return sum(event.count for event in said) >= count

        self.wait_for(look, f"{count} more acknowledged records", since=since, timeout_s=timeout_s)

    def wait_until_quiet(self, *, timeout_s: float = WAIT_TIMEOUT_S) -> None:
        """Wait until nodes that write nothing more have told of everything. Errors: LocalQuorumError."""
        deadline = time.monotonic() + timeout_s
        mark = -1
        while mark != (mark := self.mark()):
            if time.monotonic() >= deadline:
                raise LocalQuorumError(f"waited {timeout_s:g} s for the nodes to end their load")
            time.sleep(QUIET_S)

    def _read(self, descriptor: int) -> None:
        """Read to the end even when nothing can be written down: a node must not wait for us."""
        with os.fdopen(descriptor, "rb") as pipe, self.path.open("ab", buffering=0) as journal:
            for line in pipe:
                if not line.endswith(b"\n"):
                    return
                try:
                    journal.write(line)
                except OSError as error:
                    with self._changed:
                        self._faults.append(f"{self.path}: {error.strerror}")
                self._take(line)

    def _take(self, line: bytes) -> None:
        with self._changed:
            try:
                self._events.append(parse_event(line))
            except ProtocolError as error:
                self._faults.append(str(error))
            self._changed.notify_all()

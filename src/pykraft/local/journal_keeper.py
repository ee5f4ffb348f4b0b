"""Keeps the journal of a cluster outside of its nodes: reads their pipes and writes the lines down as they arrive.

One thread reads each pipe; all nodes share one journal. Invariant: what a node wrote before it was killed is in the
journal, because the bytes in a pipe outlive their writer. A node killed in the middle of a line has not acknowledged
it. Callers wait for entries of the journal, not for fixed times.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Condition, Thread
from typing import TypeVar

from pykraft.client.journal import Acknowledged, JournalEvent, Led, Started, parse_event
from pykraft.errors import LocalQuorumError, ProtocolError
from pykraft.local.child import WAIT_TIMEOUT_S, Child
from pykraft.local.waiting import wait_until
from pykraft.text.words import counted

T = TypeVar("T")

ALIVE_CHECK_INTERVAL_S = 0.2
QUIET_S = 0.5
"""Much longer than a commit takes: after this long without entries, the journal has everything that was in flight."""


class JournalKeeper:
    """The journal in ``path`` and in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._events: list[JournalEvent] = []
        self._faults: list[str] = []
        self._changed = Condition()

    def attach(self, descriptor: int) -> None:
        """Read this pipe until all its writers are gone, then close the descriptor."""
        Thread(target=self._read, args=(descriptor,), name=f"journal-{descriptor}", daemon=True).start()

    def mark(self) -> int:
        """The current end of the journal; pass it as ``since`` to find later entries."""
        with self._changed:
            return len(self._events)

    def events(self, *, since: int = 0) -> list[JournalEvent]:
        """All entries so far. Errors: LocalQuorumError for an invalid line."""
        with self._changed:
            if self._faults:
                raise LocalQuorumError(self._faults[0])
            return self._events[since:]

    @property
    def end_offset(self) -> int:
        """The end offset of the acknowledged records, 0 before the first; everything below it is committed."""
        return max((said.end_offset for said in self.acknowledgements()), default=0)

    def acknowledgements(self, *, since: int = 0) -> list[Acknowledged]:
        """All acknowledgements so far."""
        return [event for event in self.events(since=since) if isinstance(event, Acknowledged)]

    def wait_for(
        self,
        look: Callable[[Sequence[JournalEvent]], T | None],
        what: str,
        *,
        since: int = 0,
        timeout_s: float = WAIT_TIMEOUT_S,
        alive: Sequence[Child] = (),
    ) -> T:
        """The first result of ``look`` that is neither None nor False; it gets the entries from ``since`` on.

        Errors: LocalQuorumError with ``what`` at the timeout, or when a process that must stay ``alive`` has ended.
        """

        def seen() -> T | None:
            if self._faults:
                raise LocalQuorumError(self._faults[0])
            return look(self._events[since:])

        with self._changed:
            return wait_until(
                seen,
                what,
                timeout_s=timeout_s,
                alive=alive,
                pause=self._changed.wait,
                interval_s=ALIVE_CHECK_INTERVAL_S,
            )

    def wait_for_started(self, node_id: int, *, since: int, process: Child) -> None:
        """Wait until this node reports that it serves; ``since`` is a mark from before its start."""

        def look(events: Sequence[JournalEvent]) -> bool:
            return any(isinstance(event, Started) and event.node == node_id for event in events)

        self.wait_for(look, f"{process.name} to serve", since=since, alive=[process])

    def leader_id(self) -> int:
        """The node that reported a leadership last. Errors: LocalQuorumError before the first one."""
        leaders = [event.node for event in self.events() if isinstance(event, Led)]
        if not leaders:
            raise LocalQuorumError("no node has led yet")
        return leaders[-1]

    def wait_for_leader(self, *, since: int, alive: Sequence[Child] = ()) -> Led:
        """The first node that reports a leadership after this mark."""

        def look(events: Sequence[JournalEvent]) -> Led | None:
            return next((event for event in events if isinstance(event, Led)), None)

        return self.wait_for(look, "a leader", since=since, alive=alive)

    def wait_for_acknowledged(
        self, count: int, *, since: int, except_by: int | None = None, timeout_s: float = WAIT_TIMEOUT_S
    ) -> None:
        """Wait until this many records were acknowledged after this mark, by nodes other than ``except_by``."""

        def look(events: Sequence[JournalEvent]) -> bool:
            said = [event for event in events if isinstance(event, Acknowledged) and event.node != except_by]
            return sum(event.count for event in said) >= count

        self.wait_for(look, counted(count, "more acknowledged record"), since=since, timeout_s=timeout_s)

    def wait_until_quiet(self, *, timeout_s: float = WAIT_TIMEOUT_S) -> None:
        """Wait until nodes that write no more have reported everything. Errors: LocalQuorumError."""
        deadline = time.monotonic() + timeout_s
        mark = -1
        while mark != (mark := self.mark()):
            if time.monotonic() >= deadline:
                raise LocalQuorumError(f"waited {timeout_s:g} s for the nodes to stop writing")
            time.sleep(QUIET_S)

    def _read(self, descriptor: int) -> None:
        """Read to the end even if the journal cannot be written: a node must not block on its pipe."""
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

"""Failures of snapshot files: each is counted, reported as an alarm, and tried again after a pause.

A snapshot only saves space and time: the log, or another replica, still has what it would have held. So a full disk, or
one that fails for this file, must not end a node that can still append. Invariants: a file of which a write or a sync
failed never becomes a snapshot; while one kind of access pauses, at most one alarm is told for it; the pause doubles
with each failure, up to a limit, so that no size of a snapshot and no number of attempts can spin.

The sync of the *directory* is not among these failures: the log has its names in it, and the node stops as for any
other failed sync (ADR 134).

Source: ours; Kafka's ``FaultHandler`` treats a snapshot that fails as a non-fatal fault.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final

from pykraft.core.effects import Report
from pykraft.errors import SnapshotFailedError
from pykraft.host.ports import AT_ONCE_MS, Ports
from pykraft.types import Instant, ReportKind

PAUSES_MAX: Final = 16
"""The longest pause, in units of the first one."""


class SnapshotAccess(Enum):
    """What failed, as an operator reads it, what to do about it, and the kind of the report."""

    WRITE = (
        "NO SNAPSHOT WRITTEN",
        "until one succeeds, the log here keeps growing: make room on this disk, or check it",
        ReportKind.SNAPSHOT_NOT_WRITTEN,
    )
    READ = (
        "SNAPSHOT NOT READ",
        "check the disk; a restart examines the snapshots, and sets a damaged one aside if the log holds the same",
        ReportKind.SNAPSHOT_NOT_READ,
    )


class SnapshotFailures:
    """The failures of one kind of access on one node. All calls come on the host's thread."""

    def __init__(self, ports: Ports, access: SnapshotAccess, *, pause_ms: int) -> None:
        """``pause_ms`` is the first pause."""
        self.count = 0
        self._ports = ports
        self._access = access
        self._pause_ms_min = pause_ms
        self._pause_ms = 0
        self._until_ms: int | None = None
        self._is_new = False
        self._waiting: list[Callable[[], None]] = []

    @property
    def is_pausing(self) -> bool:
        """True when nothing should be tried now."""
        return self._is_new or self._until_ms is not None

    @property
    def next_deadline_ms(self) -> int | None:
        """When the pause is over (mono ms); None without one."""
        return AT_ONCE_MS if self._is_new else self._until_ms

    def failed(self, error: SnapshotFailedError) -> None:
        """An attempt failed: count it, and begin a pause unless there is one."""
        self.count += 1
        if self.is_pausing:
            return
        self._pause_ms = min(max(self._pause_ms * 2, self._pause_ms_min), self._pause_ms_min * PAUSES_MAX)
        what, advice, kind = self._access.value
        text = f"{what}: {error}; the node goes on, and tries again; {advice}"
        self._ports.report(Report(text=text, is_alarm=True, kind=kind))
        self._is_new = True
        # The next `poll` knows the time at which the pause begins.
        self._ports.wake_at(AT_ONCE_MS)

    def succeeded(self) -> None:
        """An attempt succeeded: the next pause is a short one again."""
        self._pause_ms = 0

    def after_pause(self, retry: Callable[[], None]) -> None:
        """Call this when the present pause is over."""
        self._waiting.append(retry)

    def poll(self, now: Instant) -> None:
        """Advance to this time."""
        if self._is_new:
            self._is_new, self._until_ms = False, now.mono_ms + self._pause_ms
        elif self._until_ms is not None and self._until_ms <= now.mono_ms:
            self._until_ms = None
            waiting, self._waiting = self._waiting, []
            for retry in waiting:
                retry()


class SnapshotTroubles:
    """The failures of a node by kind of access."""

    def __init__(self, ports: Ports, *, pause_ms: int) -> None:
        self.writing = SnapshotFailures(ports, SnapshotAccess.WRITE, pause_ms=pause_ms)
        self.reading = SnapshotFailures(ports, SnapshotAccess.READ, pause_ms=pause_ms)

    @property
    def count(self) -> int:
        """Failures since the start."""
        return self.writing.count + self.reading.count

    @property
    def next_deadline_ms(self) -> int | None:
        """When `poll` has something to do (mono ms)."""
        deadlines = [each.next_deadline_ms for each in (self.writing, self.reading)]
        return min((each for each in deadlines if each is not None), default=None)

    def poll(self, now: Instant) -> None:
        """Advance to this time."""
        self.writing.poll(now)
        self.reading.poll(now)

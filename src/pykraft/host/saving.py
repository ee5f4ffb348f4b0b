"""When a listener is asked to save its state: after so many bytes, or after so long.

Owns the count of what one listener was given since it was last asked, or got a snapshot. Invariants: it is asked only
when it was given something since; only where a batch ends; and only once it was given everything that was committed
when the time came. So a listener that reads a long log anew is asked once, at its end, and not all along the way.

Asking begins the count anew, whatever comes of it: a listener that could not save now is asked again later.

It refuses to know the limits (`pykraft.snapshot.schedule`), and what saving is.

Source: KIP-630 §When to Snapshot; Kafka's ``SnapshotGenerator``, which asks only while nothing waits in its queue.
"""

from __future__ import annotations

from collections.abc import Callable

from pykraft.snapshot.schedule import Reason, Schedule
from pykraft.types import Offset, OffsetAndEpoch


class Saving:
    """For one listener. `poll` brings the time: the first call after a beginning says when that was."""

    def __init__(self, schedule: Schedule, wake: Callable[[], None]) -> None:
        """``wake`` is to see to it that `poll` is called soon."""
        self._schedule = schedule
        self._wake = wake
        self._record_bytes = 0
        self._given: OffsetAndEpoch | None = None
        self._since_ms: int | None = None
        self._reason: Reason | None = None
        self._due_offset = Offset(0)

    @property
    def next_deadline_ms(self) -> int | None:
        """When `poll` would find it due by its age (mono ms); None when it cannot."""
        if self._since_ms is None or self._reason is not None or not self._record_bytes:
            return None
        return self._since_ms + self._schedule.interval_ms if self._schedule.interval_ms else None

    def given(self, end: OffsetAndEpoch, size_bytes: int, high_watermark: Offset) -> None:
        """The listener was given batches of so many bytes, up to this end, of what is committed now."""
        if not self._record_bytes:
            self._wake()
        self._given = end
        self._record_bytes += size_bytes
        self._look(0, high_watermark)

    def poll(self, mono_ms: int, high_watermark: Offset) -> None:
        """It is so late now, and so much is committed."""
        if self._since_ms is None:
            self._since_ms = mono_ms
        self._look(mono_ms - self._since_ms, high_watermark)

    def begin_anew(self) -> None:
        """Count from here on: the listener was given a snapshot, or is being asked for one."""
        self._given, self._reason, self._record_bytes, self._since_ms = None, None, 0, None
        self._wake()

    def take(self) -> tuple[OffsetAndEpoch, Reason] | None:
        """What to ask for now, and why; None when it is not due. Begins the count anew."""
        given, reason = self._given, self._reason
        if given is None or reason is None or given.offset < self._due_offset:
            return None
        self.begin_anew()
        return given, reason

    def _look(self, elapsed_ms: int, high_watermark: Offset) -> None:
        if self._reason is None:
            self._reason = self._schedule.due(record_bytes=self._record_bytes, elapsed_ms=elapsed_ms)
            self._due_offset = high_watermark

"""When to ask a listener to save its state: after enough bytes, or after enough time.

Invariants: a listener is asked only if it was given something since the last time, only at the end of a batch, and only
once it was given everything that was committed when saving became due. So a listener that rereads a long log is asked
once, at its end.

Asking resets the count, whatever the listener does: one that could not save is asked again later.

`pykraft.snapshot.catalog` has the limits.

Source: KIP-630 §When to Snapshot; Kafka's ``SnapshotGenerator``, which asks only while nothing waits in its queue.
"""

from __future__ import annotations

from collections.abc import Callable

from pykraft.config import LogSettings
from pykraft.snapshot.catalog import Reason, due
from pykraft.types import Offset, OffsetAndEpoch


class SnapshotTrigger:
    """For one listener. Time comes through `poll`: the first call after a reset sets its start time."""

    def __init__(self, settings: LogSettings, wake: Callable[[], None]) -> None:
        """``wake`` requests a call of `poll` soon."""
        self._settings = settings
        self._wake = wake
        self._record_bytes = 0
        self._given: OffsetAndEpoch | None = None
        self._since_ms: int | None = None
        self._reason: Reason | None = None
        self._due_offset = Offset(0)

    @property
    def next_deadline_ms(self) -> int | None:
        """When saving becomes due by age (mono ms); None when it cannot."""
        if self._since_ms is None or self._reason is not None or not self._record_bytes:
            return None
        interval_ms = self._settings.snapshot_interval_ms
        return self._since_ms + interval_ms if interval_ms else None

    def given(self, end: OffsetAndEpoch, size_bytes: int, high_watermark: Offset) -> None:
        """The listener was given batches of this size up to this end; the high watermark is the current one."""
        if not self._record_bytes:
            self._wake()
        self._given = end
        self._record_bytes += size_bytes
        # Only the bytes have changed; `poll` brings the time.
        self._look(0, high_watermark)

    def poll(self, mono_ms: int, high_watermark: Offset) -> None:
        """Advance to this time and high watermark."""
        if self._since_ms is None:
            self._since_ms = mono_ms
        self._look(mono_ms - self._since_ms, high_watermark)

    def begin_anew(self) -> None:
        """Reset the count: the listener was given a snapshot, or is asked for one."""
        self._given, self._reason, self._record_bytes, self._since_ms = None, None, 0, None
        self._wake()

    def take(self) -> tuple[OffsetAndEpoch, Reason] | None:
        """The snapshot to ask for now and the reason; None when none is due. Resets the count."""
        given, reason = self._given, self._reason
        # A listener that is still behind is not asked: its snapshot would be out of date at once.
        if given is None or reason is None or given.offset < self._due_offset:
            return None
        self.begin_anew()
        return given, reason

    def _look(self, elapsed_ms: int, high_watermark: Offset) -> None:
        if self._reason is None:
            self._reason = due(self._settings, record_bytes=self._record_bytes, elapsed_ms=elapsed_ms)
            self._due_offset = high_watermark

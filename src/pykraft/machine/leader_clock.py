"""The clock of the leader, for the time in the log: it goes on from the log's last time, by the monotonic clock.

Invariant: it never goes back while one node leads, and never depends on a wall clock. After a change of leader it may
be behind the records that the former leader wrote last; `pykraft.machine.replica` takes the larger time.

Source: ours (ADR 068).
"""

from __future__ import annotations


class LeaderClock:
    """Stands still until `start`, and after `stop`."""

    def __init__(self) -> None:
        self._started: tuple[int, float] | None = None

    @property
    def is_running(self) -> bool:
        """True while this node leads."""
        return self._started is not None

    def start(self, time_ms: int, mono_s: float) -> None:
        """This node leads from now on, and the log's last time is this."""
        self._started = (time_ms, mono_s)

    def stop(self) -> None:
        """This node no longer leads."""
        self._started = None

    def time_ms(self, applied_ms: int, mono_s: float) -> int:
        """The time for the next record, given that of the record that this node applied last."""
        if self._started is None:
            return applied_ms
        time_ms, started_s = self._started
        return max(applied_ms, time_ms + int((mono_s - started_s) * 1_000))

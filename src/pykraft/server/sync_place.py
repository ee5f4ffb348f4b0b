"""Decides where a group of appends is written and synced: on the loop or by the lane's thread.

To wake a thread, to share the interpreter with it and to be woken by it costs several times as much as a quick disk's
sync. So while the disk is quick, a small group is written and synced on the loop, at the end of the turn in which it
was submitted. Meanwhile the loop does nothing else, and how long a sync takes is known only afterwards. So

- the groups before, by whichever thread, must have been quick, QUICK_COUNT in a row;
- the loop must have nothing else to do: if the turn lasted long, the thread gets the next groups, too;
- slow groups on the loop may take SLOW_SHARE of the time. After a stall the thread gets all groups until the stall was
  that share of the time: after a second, for 50 seconds.

Times are seconds on the clock of the caller. Source: ADR 099.
"""

from typing import Final

from pykraft.log.lane import AppendBytes, Job

SLOW_S: Final = 0.002
"""A group that took longer was slow."""
QUICK_COUNT: Final = 8
"""Quick groups in a row before one is synced on the loop."""
BUSY_COUNT: Final = 64
"""The same for a loop that had other work."""
TURN_S_MAX: Final = 0.002
"""If a turn lasts longer than this after the group's first job, the loop has other work."""
SLOW_SHARE: Final = 0.02
"""Largest share of the time that slow groups on the loop may take."""
SLOW_S_MAX: Final = 0.01
"""Time that slow groups on the loop may take beyond that share."""
SIZE_BYTES_MAX: Final = 64 * 1024
"""Larger appends belong to the thread: they take longer than it takes to wake it."""


class SyncPlace:
    """What the last groups were like."""

    def __init__(self) -> None:
        self._needed = QUICK_COUNT
        """Quick groups in a row that are still missing."""
        self._begun_s = 0.0
        self._slow_s = 0.0
        """Time that slow groups on the loop have taken beyond their share, up to `_counted_s`."""
        self._counted_s = 0.0

    def may_be_loop(self, job: Job, now_s: float) -> bool:
        """Whether a group that begins with this job may be synced on the loop, at the end of this turn."""
        if self._needed > 0 or not isinstance(job, AppendBytes) or job.size_bytes > SIZE_BYTES_MAX:
            return False
        self._begun_s = now_s
        return self._beyond_share_s(now_s) <= SLOW_S_MAX

    def may_write(self, now_s: float) -> bool:
        """Whether a group that is only written may be written on the loop: not for a while after a stall."""
        self._begun_s = now_s
        return self._beyond_share_s(now_s) <= SLOW_S_MAX

    def is_loop(self, now_s: float) -> bool:
        """Whether it still may, at the end of the turn."""
        if now_s - self._begun_s <= TURN_S_MAX:
            return True
        self._needed = BUSY_COUNT
        return False

    def took(self, time_s: float) -> None:
        """A group took this long, on whichever thread."""
        if time_s <= SLOW_S:
            self._needed -= 1
        else:
            self._needed = max(self._needed, QUICK_COUNT)

    def took_on_loop(self, time_s: float, now_s: float) -> None:
        """A group took this long on the loop, and ended now."""
        self.took(time_s)
        if time_s > SLOW_S:
            self._slow_s = self._beyond_share_s(now_s) + time_s

    def _beyond_share_s(self, now_s: float) -> float:
        self._slow_s = max(0.0, self._slow_s - (now_s - self._counted_s) * SLOW_SHARE)
        self._counted_s = now_s
        return self._slow_s

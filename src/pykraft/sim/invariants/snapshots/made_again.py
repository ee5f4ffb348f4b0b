"""After a snapshot that could not be written, and a pause, the node writes snapshots again once its disk has room.

Otherwise its log grows until it fills the disk, and a restart reads all of it.

Source: ours (ADR 134).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pykraft.host.snapshots.files import PAUSES_MAX
from pykraft.sim.invariants.invariant import CommittedBatch, Invariant, OffsetAndEpoch, Report, SimulatedNode, View
from pykraft.types import ReportKind

ATTEMPTS: Final = 4
"""An application may give one up, or write it carelessly."""
BETWEEN_MAX: Final = 2
"""An application takes its next snapshot after so many times the scenario's number of records, at most."""
WRITES_WITHIN_US: Final = 1_000_000
"""It takes no other snapshot while it writes one."""
US_PER_MS: Final = 1_000


@dataclass(slots=True)
class _Failing:
    """A node that has failed to write snapshots since it had ``snapshots``."""

    snapshots: tuple[OffsetAndEpoch, ...]
    quiet_us: int = 0
    """Nothing has to be tried before this time."""
    from_offset: int | None = None
    """How far its application was when nothing stood in the way any more; None while something does."""
    from_us: int = 0
    """When that was."""
    skipped: int = 0
    """Records since then that came at once: an application takes one snapshot for each delivery at most."""


class SnapshotsAreMadeAgain(Invariant):
    """An application that takes snapshots on its own has one again after some attempts with room, and without pause."""

    def _begin(self) -> None:
        self._failing: dict[int, _Failing] = {}
        self._ends: dict[int, int] = {}
        self._failures: Counter[int] = Counter()
        """By process, also those before its newest snapshot: that one may have been fetched, which ends no pause."""

    def started(self, node: SimulatedNode) -> None:
        """A new process has had no failure."""
        self._failing.pop(int(node.node_id), None)
        self._ends[int(node.node_id)] = self._failures[int(node.node_id)] = 0

    def delivered(self, node: SimulatedNode, batches: Sequence[CommittedBatch]) -> None:
        """Remember how far its application is."""
        node_id, end_offset = int(node.node_id), batches[-1].end_offset
        if failing := self._failing.get(node_id):
            count = end_offset - self._ends.get(node_id, 0)
            failing.skipped += max(0, count - BETWEEN_MAX * self.facts.records_between)
        self._ends[node_id] = end_offset

    def loaded(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch) -> None:
        """A snapshot takes the application further without a record: count from there."""
        self._ends[int(node.node_id)] = snapshot_id.offset
        if failing := self._failing.get(int(node.node_id)):
            failing.from_offset = None

    def reported(self, node: SimulatedNode, report: Report) -> None:
        """Note a snapshot that could not be written: the pause doubles with each."""
        node_id = int(node.node_id)
        if report.kind is not ReportKind.SNAPSHOT_NOT_WRITTEN or node_id in self.facts.history.asked_node_ids:
            return
        known = node.host.raft.log.snapshots if node.host is not None and node.host.raft is not None else ()
        failing = self._failing.setdefault(node_id, _Failing(tuple(known)))
        self._failures[node_id] += 1
        pauses = min(2 ** (self._failures[node_id] - 1), PAUSES_MAX)
        pause_us = (pauses + 1) * node.config.raft.fetch_timeout_ms * US_PER_MS
        failing.quiet_us, failing.from_offset = self.facts.clock.now_us + pause_us, None

    def after_event(self, node: SimulatedNode, now: View) -> None:
        """Check whether it has tried often enough."""
        node_id = int(node.node_id)
        failing = self._failing.get(node_id)
        if failing is None:
            return
        if now.snapshots != failing.snapshots:
            del self._failing[node_id]
            return
        io_errors, now_us = node.disk.io_errors, self.facts.clock.now_us
        stands = io_errors.is_planned or io_errors.stalled_until_us > now_us or node.is_damaged
        if now_us < failing.quiet_us or stands or node.was_paused_since(failing.quiet_us):
            failing.from_offset = None
        elif failing.from_offset is None:
            failing.from_offset, failing.from_us, failing.skipped = self._ends[node_id], now_us, 0
        elif now_us - failing.from_us > WRITES_WITHIN_US and (
            self._ends[node_id] - failing.from_offset - failing.skipped
            > ATTEMPTS * BETWEEN_MAX * self.facts.records_between
        ):
            seen = f"node {node_id} failed to write a snapshot, and has had room from offset {failing.from_offset} on"
            raise self.violated(f"{seen}; it is at {self._ends[node_id]}, and has written none")

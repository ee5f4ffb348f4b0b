"""The host asks the application for a snapshot as soon as it has delivered enough records.

A log that grows beyond its configured size fills the disk, and a restart reads all of it.

Source: KIP-630 §When to Snapshot (``metadata.log.max.record.bytes.between.snapshots``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pykraft.sim.invariants.invariant import CommittedBatch, Invariant, OffsetAndEpoch, Report, SimulatedNode, View
from pykraft.types import ReportKind

LATE_US: Final = 100_000


@dataclass(slots=True)
class _Given:
    """What an application got since its last snapshot; ``due`` once that is enough: up to which offset, since when."""

    size_bytes: int = 0
    end_offset: int = 0
    due: tuple[int, int] | None = None
    high_watermark: int = 0
    """The highest that the host has known: one that has resigned, or not heard its new leader, reports none."""

    def begin_anew(self) -> None:
        """Count from here on."""
        self.size_bytes, self.due = 0, None


class SaveIsAskedInTime(Invariant):
    """An application that got enough, and all that was committed by then, is asked for a snapshot at once."""

    def _begin(self) -> None:
        self._given: defaultdict[int, _Given] = defaultdict(_Given)

    def started(self, node: SimulatedNode) -> None:
        """A new process has a new application."""
        self._given[int(node.node_id)] = _Given()

    def loaded(self, node: SimulatedNode, _snapshot_id: OffsetAndEpoch) -> None:
        """The application has loaded a snapshot."""
        self._given[int(node.node_id)].begin_anew()

    def reported(self, node: SimulatedNode, report: Report) -> None:
        """The host asks for a snapshot."""
        if report.kind is ReportKind.SNAPSHOT_DUE:
            self._given[int(node.node_id)].begin_anew()

    def delivered(self, node: SimulatedNode, batches: Sequence[CommittedBatch]) -> None:
        """Count the delivered bytes."""
        given = self._given[int(node.node_id)]
        given.size_bytes += sum(len(batch.data) for batch in batches)
        given.end_offset = batches[-1].end_offset
        is_enough = given.size_bytes > node.config.log.snapshot_record_bytes_max
        if (
            is_enough
            and given.due is None
            and int(node.node_id) in self.facts.history.asked_node_ids
            and node.status is not None
        ):
            high_watermark = max(given.high_watermark, node.status.high_watermark or 0)
            given.due = (max(given.end_offset, high_watermark), self.facts.clock.now_us)

    def after_event(self, node: SimulatedNode, now: View) -> None:
        """Check whether the host is late."""
        given = self._given[int(node.node_id)]
        given.high_watermark = max(given.high_watermark, now.high_watermark or 0)
        if given.due is None or node.process is None:
            return
        until_offset, since_us = given.due
        late_us = self.facts.clock.now_us - since_us
        if given.end_offset >= until_offset and late_us > LATE_US and not node.was_paused_since(since_us):
            most = node.config.log.snapshot_record_bytes_max
            seen = f"node {node.node_id} has given {given.size_bytes} bytes to its application, where {most} are enough"
            raise self.violated(f"{seen}, and has not asked it for its state")

"""An application that is asked for its state is asked as soon as enough has been given to it.

A log that grows beyond what its operator allowed fills the disk, and a restart reads all of it.

Source: KIP-630 self.factshen to Snapshot (``metadata.log.max.record.bytes.between.snapshots``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pykraft.host.delivery import CommittedBatch
from pykraft.sim.facts.facts import Facts
from pykraft.sim.facts.view import View
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import Node
from pykraft.types import OffsetAndEpoch

ASKED: Final = "the application is asked for a snapshot"
LATE_US: Final = 100_000


@dataclass(slots=True)
class _Given:
    """What one application was given since it was asked last; ``due`` once that is enough: up to where, since when."""

    size_bytes: int = 0
    end_offset: int = 0
    due: tuple[int, int] | None = None


class SaveIsAskedInTime(Invariant):
    """Who was given enough since its last snapshot, and all that was committed then, is asked for its state at once."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._given: defaultdict[int, _Given] = defaultdict(_Given)

    def started(self, node: Node) -> None:
        """A new application."""
        self._given[int(node.node_id)] = _Given()

    def loaded(self, node: Node, snapshot_id: OffsetAndEpoch) -> None:
        """It has a snapshot now."""
        del snapshot_id
        self._given[int(node.node_id)] = _Given()

    def reported(self, node: Node, text: str) -> None:
        """It is asked."""
        if text.startswith(ASKED):
            self._given[int(node.node_id)] = _Given()

    def delivered(self, node: Node, batches: Sequence[CommittedBatch]) -> None:
        """Count what it is given."""
        given = self._given[int(node.node_id)]
        given.size_bytes += sum(len(batch.data) for batch in batches)
        given.end_offset = batches[-1].end_offset
        is_enough = given.size_bytes > node.config.log.snapshot_record_bytes_max
        if (
            is_enough
            and given.due is None
            and int(node.node_id) in self.facts.history.asked_node_ids
            and node.host is not None
        ):
            given.due = (max(given.end_offset, node.host.high_watermark or 0), self.facts.clock.now_us)

    def after_event(self, node: Node, now: View) -> None:
        """Look whether the time is over."""
        del now
        given = self._given[int(node.node_id)]
        if given.due is None or node.process is None:
            return
        until_offset, since_us = given.due
        late_us = self.facts.clock.now_us - since_us
        if given.end_offset >= until_offset and late_us > LATE_US and not node.was_paused_since(since_us):
            most = node.config.log.snapshot_record_bytes_max
            seen = f"node {node.node_id} has given {given.size_bytes} bytes to its application, where {most} are enough"
            raise self.violated(f"{seen}, and has not asked it for its state")

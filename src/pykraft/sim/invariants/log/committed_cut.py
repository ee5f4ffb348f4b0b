"""No node removes a committed record that it holds, or forgets at a start what it knew to be committed.

A follower truncates only what no majority holds. If it is told otherwise, it or its leader has a bug, and the
truncation would lose acknowledged records. A snapshot replaces committed records only if it contains them.

A disk may have changed the epochs of batches. A replica that knows of damage promises nothing about its log, and may
have to fetch again what was written as it should be.

The leader of an older epoch does not know what a newer one has committed, and who still follows it may be told to cut
that: its copy did not count.

A replica remembers a lower bound of what is committed, so that it can tell a leader that has lost records.

Source: ADR 128; Raft paper §5.3–5.4; Kafka ``KafkaRaftLog.truncateToEndOffset`` (refuses below the high watermark).
"""

from __future__ import annotations

from bisect import bisect_left

from pykraft.core.effects import InstallSnapshot, TruncateTo
from pykraft.log.lane import Job
from pykraft.log.small_files.recovery_point import FILE_NAME
from pykraft.log.small_files.slots import parse_slots
from pykraft.sim.facts.view import View
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.ledger import Entry
from pykraft.sim.machine.node import SimulatedNode


class CommittedIsNeverCut(Invariant):
    """No truncation, and no snapshot that ends before it, removes a batch that some leader counted as committed."""

    def _begin(self) -> None:
        self._advances: list[tuple[int, int]] = []
        """End offset and epoch of each leader that was the first to count so much as committed, ascending."""

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Remember in which epoch more is committed."""
        del node, was
        known = self._advances[-1][0] if self._advances else 0
        if now.has_led and now.high_watermark is not None and now.high_watermark > known:
            self._advances.append((now.high_watermark, now.epoch))

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        """Check what a truncation, or a snapshot that replaces the log, removes."""
        if not isinstance(job, TruncateTo | InstallSnapshot):
            return
        if node.is_damaged and node.disk.is_rotten:
            return
        end_offset = job.end_offset if isinstance(job, TruncateTo) else job.snapshot_id.offset
        committed = self.facts.committed
        for entry in reversed(self.facts.ledger(node).entries):
            if entry.end_offset <= end_offset:
                return
            if committed.at(entry.base_offset) == entry and self._epoch_of_commit(entry) <= _epoch_of(node):
                seen = f"node {node.node_id} cuts its log to {end_offset}, and with it"
                raise self.violated(f"{seen} the committed batch at {entry.base_offset} of epoch {entry.epoch}")

    def _epoch_of_commit(self, entry: Entry) -> int:
        at = bisect_left(self._advances, (entry.end_offset, 0))
        return self._advances[at][1] if at < len(self._advances) else 0


class CommittedStaysKnown(Invariant):
    """What a node's ``recovery-point`` calls committed before a start, the node knows after it, as far as its log goes.

    A disk that lies may have lost the file, or what it speaks of.
    """

    def _begin(self) -> None:
        self._known: dict[int, int] = {}

    def starting(self, node: SimulatedNode) -> None:
        """Read the file."""
        directory = node.disk.directory(node.config.partition_directory)
        inode = directory.cached.get(FILE_NAME) if directory is not None else None
        slots = parse_slots(bytes(inode.cached)) if inode is not None else ()
        _, _, committed = slots[-1].payload.partition(b" ") if slots else (b"", b"", b"")
        self._known[int(node.node_id)] = int(committed or b"0")

    def after_event(self, node: SimulatedNode, _now: View) -> None:
        """Compare with what the node knows once it has started."""
        known, status = self._known.pop(int(node.node_id), 0), node.status
        if not known or status is None or node.is_damaged or node.disk.is_rotten:
            return
        after = status.committed_end_offset
        if after < min(known, status.log_end_offset):
            seen = f"node {node.node_id} knew that everything below {known} is committed"
            raise self.violated(f"{seen}, and after its start below {after}")


def _epoch_of(node: SimulatedNode) -> int:
    assert node.status is not None
    return node.status.epoch

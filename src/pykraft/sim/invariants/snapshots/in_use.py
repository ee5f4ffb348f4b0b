"""A snapshot that a replica is fetching stays until the download is done, however long it takes.

Source: ours; Kafka deletes a snapshot that is being fetched (``KafkaRaftLog.maybeClean``); the follower begins anew.
"""

from __future__ import annotations

from dataclasses import dataclass

from pykraft.core.effects import MoveLogStart
from pykraft.sim.invariants.invariant import Invariant, Job, OffsetAndEpoch, SimulatedNode, Spoken

LAG_US = 300_000
"""Time from the search for old snapshots to the job that removes one."""


@dataclass(slots=True, kw_only=True)
class _Download:
    """Consecutive requests of one node for slices of one snapshot."""

    began_us: int
    asked_us: int
    position: int


class SnapshotInUseStays(Invariant):
    """No node removes a snapshot that another one has been fetching from it without a break.

    Such a snapshot stays until nobody has asked for a slice of it for the time between two searches, or for a fetch
    timeout if that is longer.
    """

    def _begin(self) -> None:
        self._downloads: dict[tuple[int, int, OffsetAndEpoch], _Download] = {}

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        """Remember the request for a slice: it continues a download, or begins one."""
        asked, target_id = spoken.sliced, spoken.target_id
        if asked is None or target_id is None:
            return
        now_us, key = self.facts.clock.now_us, (int(node.node_id), target_id, asked.snapshot_id)
        known = self._downloads.get(key)
        break_us = _patience_us(node) // 2
        if known is None or asked.position <= known.position or now_us - known.asked_us > break_us:
            self._downloads[key] = _Download(began_us=now_us, asked_us=now_us, position=asked.position)
        else:
            known.asked_us, known.position = now_us, asked.position

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        """Check the downloads when the log is to begin later."""
        if not isinstance(job, MoveLogStart):
            return
        now_us, patience_us = self.facts.clock.now_us, _patience_us(node)
        for (asker_id, target_id, snapshot_id), known in self._downloads.items():
            if target_id != int(node.node_id) or snapshot_id.offset >= job.snapshot_id.offset:
                continue
            is_fetched = now_us - known.asked_us <= patience_us // 2
            lasts_us = now_us - known.began_us
            is_undisturbed = not node.was_paused_since(known.began_us) and (
                node.disk.io_errors.stalled_until_us < known.began_us
            )
            if is_fetched and is_undisturbed and lasts_us > patience_us + LAG_US:
                seen = f"node {node.node_id} lets go of the snapshot {snapshot_id}"
                raise self.violated(f"{seen}, which node {asker_id} has been fetching for {lasts_us} us")


def _patience_us(node: SimulatedNode) -> int:
    """How long a node keeps a snapshot that nobody asks for any more."""
    return max(node.config.log.clean_interval_ms, node.config.raft.fetch_timeout_ms) * 1_000

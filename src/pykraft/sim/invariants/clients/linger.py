"""An append waits for its linger time and no longer.

The leader must set a timer for it, because nothing else may happen at the leader meanwhile.

Source: KIP-595 (``quorum.append.linger.ms``); Kafka ``KafkaRaftClient.poll``, which must wake when the linger is over.
"""

from __future__ import annotations

from collections import defaultdict

from pykraft.log.lane import AppendBytes
from pykraft.sim.invariants.invariant import Invariant, Job, Operation, SimulatedNode

SLACK_MS = 3
"""Host clocks tick in milliseconds, and a wake-up may be one late."""


class LingerIsBounded(Invariant):
    """An accepted proposal goes to the disk when its linger time is over, unless the disk is busy."""

    def _begin(self) -> None:
        self._lingering: defaultdict[int, dict[int, Operation]] = defaultdict(dict)
        self._idle_since_ms: dict[int, int] = {}
        """Since when the disk of a node has nothing to do, by the node's clock."""

    def started(self, node: SimulatedNode) -> None:
        """Appends that lingered at the former process are gone."""
        self._lingering[int(node.node_id)].clear()

    def persisted(self, node: SimulatedNode) -> None:
        """The disk is idle from now on."""
        self._idle_since_ms[int(node.node_id)] = node.clock.instant.mono_ms

    def accepted(self, operation: Operation) -> None:
        """The proposal has its offset and lingers, unless it was only prepared."""
        assert operation.base_offset is not None
        if operation.is_prepared:
            return
        self._lingering[operation.node_id][operation.base_offset] = operation

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        """Check how long the operations in this job lingered."""
        lingering = self._lingering[int(node.node_id)]
        idle_since_ms = self._idle_since_ms.pop(int(node.node_id), None)
        if not isinstance(job, AppendBytes) or not lingering:
            return
        linger_ms, now_ms = node.config.raft.append_linger_ms, node.clock.instant.mono_ms
        for header, _ in job.batches:
            for offset in [offset for offset in lingering if offset < header.end_offset]:
                operation = lingering.pop(offset)
                if operation.epoch != header.epoch or idle_since_ms is None:
                    continue
                lingered_ms = (self.facts.clock.now_us - operation.invoked_us) // 1_000
                # By the node's clock and by virtual time, because a node whose clock is skewed may be late by only one
                # of them.
                late_ms = min(
                    now_ms - max(operation.invoked_mono_ms + linger_ms, idle_since_ms), lingered_ms - linger_ms
                )
                if late_ms > SLACK_MS and not node.was_paused_since(operation.invoked_us):
                    seen = f"node {node.node_id} let operation {operation.number} linger for {linger_ms} ms"
                    raise self.violated(f"{seen} and {late_ms} more, and its disk had nothing to do")

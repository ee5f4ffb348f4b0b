"""Every proposal gets an outcome as long as the process that accepted it runs.

A leader without a majority resigns; then the outcome is unknown, which counts as an outcome, too. A follower fetches in
log order, so a proposal waits for everything before it. When a disk is slower than the clients, that may take as long
as the leader keeps committing.

Source: ValuesEventuallyAcked of Vanlightly's specification of KRaft; `pykraft.host.producers` (exactly one outcome).
"""

from __future__ import annotations

from pykraft.sim.facts.calm import transfer_us
from pykraft.sim.invariants.invariant import Invariant, Operation, SimulatedNode, View

TIMEOUTS = 6
"""Something is committed within this many fetch timeouts: a leader is given up after three, and disks may be slow."""


class EveryProposalIsDecided(Invariant):
    """At the end no client waits for an outcome that its node knows, or longer than a leader lasts without commits."""

    def _begin(self) -> None:
        self._open: dict[int, Operation] = {}
        self._rose_us: dict[int, int] = {}
        """By node: when its high watermark as a leader last rose."""

    def proposed(self, operation: Operation) -> None:
        """A client waits for this outcome."""
        self._open[operation.number] = operation

    def decided(self, operation: Operation) -> None:
        """The client has its outcome. Errors: ViolationError for a second one."""
        if self._open.pop(operation.number, None) is None:
            raise self.violated(f"operation {operation.number} of node {operation.node_id} is answered twice")

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Remember when a leader commits."""
        if now.leads and now.high_watermark != was.high_watermark:
            self._rose_us[int(node.node_id)] = self.facts.clock.now_us

    def ended(self) -> None:
        """Look for clients that have waited too long."""
        for operation in self._open.values():
            reason = self._overdue(operation) if operation.is_alive() else None
            if reason is not None:
                asked, now = operation.invoked_us / 1_000, self.facts.clock.now_us / 1_000
                seen = f"operation {operation.number}, proposed at node {operation.node_id} at {asked:.3f} ms"
                raise self.violated(f"{seen}, has no answer at {now:.3f} ms: {reason}")

    def _overdue(self, operation: Operation) -> str | None:
        """Why this open operation should have an outcome, or None. The process that accepted it still runs."""
        scenario, status = self.facts.scenario, self.facts.nodes[operation.node_id].status
        assert status is not None
        if not status.leads or status.epoch != operation.epoch:
            # The step that ends a leadership gives all waiting clients their outcome.
            return f"the node does not lead epoch {operation.epoch} any more"
        since_us, seen = operation.invoked_us, "it has had no offset"
        if operation.base_offset is not None:
            if operation.end_offset <= (status.high_watermark or 0):
                # The step that raises the high watermark gives all clients below it their outcome.
                return f"the high watermark is {status.high_watermark}, beyond its end {operation.end_offset}"
            # While the high watermark rises, fewer records are left before this operation. The protocol sets no pace:
            # it depends on disks, links and clients, and nothing bounds the leader's log above the high watermark.
            since_us = max(since_us, self._rose_us.get(operation.node_id, 0))
            seen = "its leader has committed nothing"
        # A leader that commits nothing has no majority that fetches, and resigns.
        waits_us = transfer_us(scenario, self.facts.network.byte_us)
        limit_us = TIMEOUTS * scenario.quorum.fetch_timeout_ms * 1_000 + waits_us
        waited_us = self.facts.clock.now_us - since_us
        return f"{seen} for {waited_us / 1_000:.3f} ms" if waited_us > limit_us else None

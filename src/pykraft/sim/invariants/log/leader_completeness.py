"""A leader holds every record that was committed before its election.

This includes records that an older leader finds out to be committed later: they were on a majority before the election,
so the new leader has them.

Source: Raft paper §5.4.3 (Leader Completeness); LeaderCompleteness of Vanlightly's specification of KRaft.
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, View


class LeaderCompleteness(Invariant):
    """The log of each new leader, or the snapshot before it, holds the last batch that is known to be committed."""

    def _begin(self) -> None:
        self._newest: tuple[int, SimulatedNode] | None = None

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Check a new leader, and the newest leader again when an older one commits more."""
        if not now.leads:
            return
        is_new = not was.leads or was.epoch != now.epoch
        if is_new and (self._newest is None or now.epoch > self._newest[0]):
            self._newest = (now.epoch, node)
            self._look(now.epoch, node)
        elif self._newest is not None and now.epoch < self._newest[0] and now.high_watermark != was.high_watermark:
            epoch, newest = self._newest
            status = newest.status
            if status is not None and status.leads and status.epoch == epoch:
                self._look(epoch, newest)

    def _look(self, epoch: int, leader: SimulatedNode) -> None:
        committed = self.facts.committed.entries
        if not committed:
            return
        last = committed[-1]
        ledger = self.facts.ledger(leader)
        held = ledger.at(last.base_offset)
        # A log that begins at or after the batch's end has it in a snapshot.
        if held != last and ledger.begin.offset < last.end_offset:
            seen = f"leader {leader.node_id} of epoch {epoch} does not hold what is committed up to {last.end_offset}"
            raise self.violated(f"{seen} in epoch {last.epoch}: {held}")

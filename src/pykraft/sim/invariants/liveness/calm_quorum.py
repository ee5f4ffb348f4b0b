"""An undisturbed majority has a leader in time, and keeps committing as fast as its links allow.

A quorum that elects for ever is safe but useless. When a majority is connected, elections end within a few timeouts.
Whatever clients propose, the high watermark then moves as fast as the links transfer a batch: an answer that takes
longer than a timeout must arrive all the same.

Source: KIP-595 §Leader election (randomized timeouts); EventuallyLeaderElected of Vanlightly's specification of KRaft;
the bounds are ours (ADR 036).
"""

from __future__ import annotations

from pykraft.sim.facts.calm import Calm, transfer_us
from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, View

ELECTION_TIMEOUTS = 25
"""A calm majority elects a leader within this many election timeouts, even when votes are split repeatedly."""
FETCH_TIMEOUTS = 6
"""Fetch timeouts to add for noticing that the former leader is gone, and for the first Fetches."""
US_PER_MS = 1_000


class CalmQuorumCommits(Invariant):
    """Within a bound, a calm majority of the voters has a leader and raises its high watermark."""

    def _begin(self) -> None:
        self._calm = Calm(self.facts)
        self._moved_us = 0
        self._end_offset = -1
        quorum, work = self.facts.scenario.quorum, self.facts.scenario.work
        # The time for an election, for one batch over the slowest link, and for the clients' next proposals.
        timeouts_ms = ELECTION_TIMEOUTS * quorum.election_timeout_ms + FETCH_TIMEOUTS * quorum.fetch_timeout_ms
        self.bound_us = (
            timeouts_ms * US_PER_MS + transfer_us(self.facts.scenario, self.facts.network.byte_us) + 4 * work.period_us
        )

    def after_event(self, _node: SimulatedNode, _now: View) -> None:
        """Check whether anything was committed recently."""
        if not self._calm.is_due():
            return
        now_us, end_offset = self.facts.clock.now_us, self.facts.committed.end_offset
        calm_us = self._calm.lasts_us()
        if end_offset != self._end_offset:
            self._end_offset, self._moved_us = end_offset, now_us
        still_us = min(calm_us, now_us - self._moved_us)
        if still_us > self.bound_us:
            leader = self.facts.newest_leader()
            if leader is not None and leader.host.status.log_end_offset <= end_offset:
                self._moved_us = now_us  # Nothing waits to be committed.
                return
            who = "nobody leads" if leader is None else f"node {leader.node_id} leads epoch {leader.host.status.epoch}"
            seen = (
                f"nothing was committed beyond {end_offset} for {still_us} us, though nothing stood in the way: {who}"
            )
            raise self.violated(seen)

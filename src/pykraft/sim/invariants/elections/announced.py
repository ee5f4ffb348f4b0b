"""A leader keeps telling silent voters that it leads, as long as it does.

A voter that was down or cut off during the election may have no other way to find the leader, and does not vote
meanwhile.

Source: KIP-595 §BeginQuorumEpoch (sent again to voters that have not fetched); KIP-853.
"""

from __future__ import annotations

from typing import Final

from pykraft.core.state import Leader
from pykraft.sim.facts.facts import FORGER_ID
from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, Spoken, View

FETCH_TIMEOUTS: Final = 4
"""Half a fetch timeout is the period; a request without an answer, and the pause after it, add to that."""
LOOK_US: Final = 50_000
US_PER_MS: Final = 1_000


class SilentVotersAreTold(Invariant):
    """Within a few fetch timeouts a leader tries to reach each voter that does not fetch from it."""

    def _begin(self) -> None:
        self._tried_us: dict[tuple[int, int], int] = {}
        self._led_since_us: dict[int, int] = {}
        self._next_us: dict[int, int] = {}

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Remember when a leadership begins, and when the voters change."""
        if now.leads and (not was.leads or was.epoch != now.epoch or was.voters != now.voters):
            self._led_since_us[int(node.node_id)] = self.facts.clock.now_us

    def dialed(self, node: SimulatedNode, target_id: int) -> None:
        """The node tries to reach another one."""
        self._tried_us[int(node.node_id), target_id] = self.facts.clock.now_us

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        """The node sends another one a request."""
        if spoken.target_id is not None:
            self._tried_us[int(node.node_id), spoken.target_id] = self.facts.clock.now_us

    def after_event(self, node: SimulatedNode, now: View) -> None:
        """Check the voters that do not fetch."""
        now_us, node_id = self.facts.clock.now_us, int(node.node_id)
        if not now.leads or now_us < self._next_us.get(node_id, 0):
            return
        self._next_us[node_id] = now_us + LOOK_US
        bound_ms = FETCH_TIMEOUTS * node.config.raft.fetch_timeout_ms
        since_us = now_us - bound_ms * US_PER_MS
        is_new = self._led_since_us[node_id] > since_us
        if is_new or node.was_paused_since(since_us) or node.disk.io_errors.stalled_until_us > since_us:
            return
        assert node.host is not None
        assert node.host.raft is not None
        state = node.host.raft.state
        assert isinstance(state, Leader)
        for voter_id, voter in state.progress.voters.items():
            if any(endpoint.port == FORGER_ID for _, endpoint in now.voters.listeners(voter_id)):
                continue  # a stranger said so, while the voter was down
            heard_ms = voter.fetched_mono_ms
            is_silent = heard_ms is None or node.clock.instant.mono_ms - heard_ms > bound_ms
            if voter_id != node_id and is_silent and self._tried_us.get((node_id, int(voter_id)), 0) < since_us:
                seen = f"leader {node_id} of epoch {now.epoch} has not tried to reach voter {voter_id}"
                raise self.violated(f"{seen} for {bound_ms} ms, which is silent")

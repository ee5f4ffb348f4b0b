"""After a leader's process ends, a voter becomes a candidate long before a fetch timeout.

The connections of the followers break, and dialing the leader again is refused. Each follower notices within a moment,
so one of them asks for pre-votes early and gets them. The oracle judges only when nothing else is wrong: all other
voters follow the leader when it ends, none is paused or damaged, all links and disks work, and no other fault happens
before the bound.

Source: ours (ADR 063).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pykraft.core.election import EARLY_BACKOFFS
from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, View
from pykraft.sim.scenario.scenario import KINDS

HOPS: Final = 20
"""Frames one after the other between the end of a leader and a candidate, and slow ones among them."""
US_PER_MS: Final = 1_000


class _Death(NamedTuple):
    """A leader whose process ended."""

    node_id: int
    epoch: int
    at_us: int
    faults: int
    """How many faults had happened by then."""


class DeadLeaderIsMissed(Invariant):
    """Within a fraction of the fetch timeout after a leader's process ended, a voter becomes a candidate."""

    def _begin(self) -> None:
        self._views: dict[int, View] = {}
        self._death: _Death | None = None
        links, quorum = self.facts.scenario.links, self.facts.scenario.quorum
        self.bound_us = (2 * EARLY_BACKOFFS + 5) * 20 * US_PER_MS + HOPS * max(links.latency_us_max)
        # Otherwise the fetch timeout itself would be about as early, or a dial that is not answered would look like one
        # that is refused.
        self._is_on = (
            2 * self.bound_us <= quorum.fetch_timeout_ms * US_PER_MS
            and not links.unanswered_probability
            and not links.half_open_probability
        )

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Notice a leader that ends, and a candidate that follows it."""
        node_id = int(node.node_id)
        self._views[node_id] = now
        death = self._death
        if death is not None and (now.role == "candidate" or node_id == death.node_id) and now.is_up:
            self._death = None
        if self._is_on and was.leads and not now.is_up and self._are_well(node_id, was):
            self._death = _Death(node_id, was.epoch, self.facts.clock.now_us, self._faults())

    def after_event(self, _node: SimulatedNode, _now: View) -> None:
        """Check whether the last leader that ended is missed by now."""
        death = self._death
        if death is None:
            return
        if self._faults() != death.faults or not self.facts.network.is_usual:
            self._death = None
            return
        past_us = self.facts.clock.now_us - death.at_us
        if past_us > self.bound_us:
            seen = f"node {death.node_id}, the leader of epoch {death.epoch}, ended {past_us} us ago"
            raise self.violated(f"{seen}, and no voter is a candidate yet")

    def _faults(self) -> int:
        return sum(self.facts.counts[kind] for kind in KINDS)

    def _are_well(self, leader_id: int, leader: View) -> bool:
        """True when all other voters follow this leader, undisturbed."""
        others = [self.facts.nodes[int(each)] for each in leader.voters.ids if int(each) != leader_id]
        return bool(others) and self.facts.network.is_usual and all(self._is_well(each, leader) for each in others)

    def _is_well(self, node: SimulatedNode, leader: View) -> bool:
        view, process = self._views.get(int(node.node_id)), node.process
        return (
            view is not None
            and process is not None
            and not process.is_paused
            and not process.is_leaving
            and not node.is_damaged
            and node.disk.io_errors.stalled_until_us <= self.facts.clock.now_us
            and (view.role, view.epoch, view.has_fetched) == ("follower", leader.epoch, True)
        )

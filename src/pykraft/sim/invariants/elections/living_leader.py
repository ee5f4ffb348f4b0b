"""A voter does not campaign within a fetch timeout after it got records or a snapshot slice from its leader.

These are the surest signs that the leader is alive. A follower that ignores one campaigns too early: the others deny
its pre-votes, and it has lost its leader for nothing, perhaps in the middle of a long download. A leader that has
refused a connection since may be gone (`early_campaign`).

Source: KIP-595 §Leader progress timeout; KIP-630 §FetchSnapshot (a valid response resets the fetch timer).
"""

from __future__ import annotations

from typing import NamedTuple

from pykraft.core.state import Follower
from pykraft.sim.facts.view import dialed_id
from pykraft.sim.invariants.invariant import Invariant, Report, SimulatedNode, View
from pykraft.types import ReportKind


class _Following(NamedTuple):
    """A leader, and what a follower has got from it."""

    epoch: int
    leader_id: int
    departures: int
    """EndQuorumEpoch requests that its process had received by then."""
    end_offset: int
    downloads: bool
    awaits_slice: bool
    heard_ms: int | None = None
    """When it last got something, by its own clock."""
    dialed_id: int = 0
    """The node that it dials."""
    refusals: int = 0
    """Connections that the leader's machine had refused by then."""


class LivingLeaderIsFollowed(Invariant):
    """No voter campaigns within a fetch timeout after records or a slice from its leader, unless that is gone."""

    def _begin(self) -> None:
        self._following: dict[int, _Following] = {}

    def reported(self, node: SimulatedNode, report: Report) -> None:
        """A follower leaves a leader that contradicts itself."""
        if report.kind is ReportKind.LEADER_GIVEN_UP:
            self._following.pop(int(node.node_id), None)

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Check whether a follower that left its leader had a reason to."""
        following = self._following.get(int(node.node_id))
        is_campaign = was.role == "follower" and now.is_prospective and was.epoch == now.epoch
        is_campaign &= not self.facts.claims.has_said_goodbye
        if following is None or not is_campaign or node.process is None or following.heard_ms is None:
            return
        silent_ms = node.clock.instant.mono_ms - following.heard_ms
        was_told = len(node.process.wiretap.departures) != following.departures
        was_refused = node.process.wiretap.refusals[following.dialed_id] != following.refusals
        if silent_ms < node.config.raft.fetch_timeout_ms and not (was_told or was_refused):
            seen = f"node {node.node_id} campaigns {silent_ms} ms after it took something from {following.leader_id}"
            raise self.violated(f"{seen}, its leader of epoch {following.epoch}")

    def after_event(self, node: SimulatedNode, now: View) -> None:
        """Remember what a follower got."""
        node_id, process = int(node.node_id), node.process
        raft = process.host.raft if process is not None else None
        if now.role != "follower" or process is None or raft is None or not isinstance(raft.state, Follower):
            self._following.pop(node_id, None)
            return
        state, was = raft.state, self._following.get(node_id)
        end_offset, download = raft.log.end_offset, state.download
        awaits_slice = download is not None and download.position is not None
        if was is None or (was.epoch, was.leader_id) != (state.epoch, state.leader_id):
            departures = len(process.wiretap.departures)
            was = _Following(state.epoch, state.leader_id, departures, end_offset, download is not None, awaits_slice)
        # A snapshot that replaces the log moves its end, too, although nothing came from the leader.
        has_records = download is None and not was.downloads and end_offset > was.end_offset
        has_slice = was.awaits_slice and download is not None and not awaits_slice
        if has_records or has_slice:
            refusals = process.wiretap.refusals[dialed_id(state)]
            was = was._replace(heard_ms=node.clock.instant.mono_ms, refusals=refusals, dialed_id=dialed_id(state))
        self._following[node_id] = was._replace(
            end_offset=end_offset, downloads=download is not None, awaits_slice=awaits_slice
        )

"""A voter that never leads campaigns only when an election may be stuck without it.

It needs one of two reasons since it last heard a leader: a candidate with a shorter log has asked for its vote, or as
much time has passed as three election timeouts take at least. Otherwise it would take part in every election, win many
of them, and the quorum would be without a leader for longer than it has to.

Source: ours (ADR 077).
"""

from __future__ import annotations

from typing import NamedTuple

from pykraft.core.never_leads import TIMEOUTS_MAX
from pykraft.core.state import Follower
from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, View
from pykraft.sim.machine.node import Process


class _Heard(NamedTuple):
    """When a process last heard a leader, led, or began, and what it had been asked by then."""

    process: Process
    at_ms: int
    asked: int
    """Votes that candidates with shorter logs had asked for."""
    deadline_ms: int
    """The fetch deadline, which an answer of the leader moves."""


class CampaignsOfLastResort(Invariant):
    """Between a leader and a campaign of a voter that never leads lies a reason."""

    def _begin(self) -> None:
        self._heard: dict[int, _Heard] = {}

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Check a campaign that begins, and remember a leader."""
        process = node.process
        if process is None or not node.config.raft.never_leads:
            return
        heard, now_ms = self._heard.get(int(node.node_id)), node.clock.instant.mono_ms
        is_campaign = now.is_prospective and not was.is_prospective and was.role != "candidate"
        if is_campaign and heard is not None and heard.process is process:
            waited_ms, least_ms = now_ms - heard.at_ms, TIMEOUTS_MAX * node.config.raft.election_timeout_ms
            if waited_ms < least_ms and process.wiretap.asked_by_shorter == heard.asked:
                seen = f"node {node.node_id}, which never leads, campaigns in epoch {now.epoch} after {waited_ms} ms"
                raise self.violated(f"{seen}, and no candidate with a shorter log has asked it")

    def after_event(self, node: SimulatedNode, now: View) -> None:
        """Remember when the node last had a leader."""
        process = node.process
        if process is None or not node.config.raft.never_leads:
            return
        heard, raft = self._heard.get(int(node.node_id)), process.host.raft
        state = raft.state if raft is not None else None
        # An answer that the node ignores tells nothing, so the deadline counts, not the answers on the wire.
        deadline_ms = state.fetch_deadline_ms if isinstance(state, Follower) and state.has_fetched else 0
        is_new = heard is None or heard.process is not process
        if is_new or now.leads or (heard is not None and deadline_ms > heard.deadline_ms):
            asked = process.wiretap.asked_by_shorter
            self._heard[int(node.node_id)] = _Heard(process, node.clock.instant.mono_ms, asked, deadline_ms)

"""A follower campaigns before its fetch timeout once for each lost connection, and only after a refused one.

A connection that merely breaks is dialed again. If the leader's machine refuses the dial, its process has perhaps
ended, and the follower asks for pre-votes early, once. It does so again only after another answer of the leader and
another refusal: otherwise a leader that cannot be dialed, but serves others, would be troubled for ever.

Source: ours (ADR 063).
"""

from __future__ import annotations

from dataclasses import dataclass

from pykraft.core.state import Follower
from pykraft.sim.facts.view import dialed_id
from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, View
from pykraft.sim.machine.node import Process


@dataclass(slots=True, kw_only=True)
class _Following:
    """A leader, and what a follower has seen of it."""

    process: Process
    epoch: int
    leader_id: int
    dialed_id: int
    fetch_deadline_ms: int = 0
    answers: int = 0
    """Answers of the leader so far."""
    refusals: int = 0
    """Connections that the leader's machine had refused when the last answer came."""
    used: int = 0
    """Answers of the leader when the follower last campaigned early, or began to follow it."""


class EarlyCampaignsHaveReason(Invariant):
    """Between two early campaigns against a leader it answered and then refused a connection."""

    def _begin(self) -> None:
        self._following: dict[int, _Following] = {}

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Check a campaign that begins before the fetch deadline."""
        seen, process = self._following.get(int(node.node_id)), node.process
        is_campaign = was.role == "follower" and now.is_prospective and was.epoch == now.epoch
        # A voter that never leads stays a follower when it gives its leader up. Then it has reasons of its own to
        # campaign, which `abstention` checks.
        is_campaign = is_campaign and (was.has_fetched or not node.config.raft.never_leads)
        if seen is None or not is_campaign or process is None or seen.process is not process:
            return
        # EndQuorumEpoch ends the wait, perhaps later: when the leader confirms it (`core.departure`).
        is_told = any(
            (told.epoch, told.leader_id) == (seen.epoch, seen.leader_id) for told in process.wiretap.departures
        )
        # Where a stranger poses as the leader, the voter that it names answers, too, and at another address.
        is_posed = seen.epoch in self.facts.claims.led | self.facts.claims.misplaced
        if is_told or is_posed or node.clock.instant.mono_ms >= seen.fetch_deadline_ms:
            return
        who = f"node {node.node_id} campaigns before its fetch timeout, and node {seen.leader_id}, which leads epoch"
        if process.wiretap.refusals[seen.dialed_id] == seen.refusals:
            raise self.violated(f"{who} {seen.epoch}, has refused no connection since it answered")
        if seen.answers == seen.used:
            raise self.violated(f"{who} {seen.epoch}, has not answered since the last time")
        seen.used = seen.answers

    def after_event(self, node: SimulatedNode, now: View) -> None:
        """Remember the deadline of a follower, and what its leader did."""
        node_id, process = int(node.node_id), node.process
        raft = process.host.raft if process is not None else None
        # An observer may become a voter by the very answer after which the leader refuses connections.
        is_following = now.role in {"follower", "observer"}
        if not is_following or process is None or raft is None or not isinstance(raft.state, Follower):
            return
        state, wiretap, seen = raft.state, process.wiretap, self._following.get(node_id)
        dialed = dialed_id(state)
        answers, refusals = wiretap.answers[dialed], wiretap.refusals[dialed]
        known = (process, state.epoch, state.leader_id, dialed)
        if seen is None or (seen.process, seen.epoch, seen.leader_id, seen.dialed_id) != known:
            seen = _Following(process=process, epoch=state.epoch, leader_id=state.leader_id, dialed_id=dialed)
            seen.answers = seen.used = answers
            seen.refusals = refusals
            self._following[node_id] = seen
        # A leader that came back with an empty disk answers, too, but it leads no more: that takes no reason away.
        if answers > seen.answers and state.has_fetched:
            seen.answers, seen.refusals = answers, refusals
        seen.fetch_deadline_ms = state.fetch_deadline_ms

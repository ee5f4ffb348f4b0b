"""A leader that a majority of the voters reaches is not replaced, however often connections break.

A voter reaches its leader from one answer on, until a fetch timeout later, unless the leader's machine refuses it a
connection or the leader says that it resigns. The answer is one to a Fetch of the leader's epoch: a Fetch that was
under way since an older one gets an error, whatever the voter has heard meanwhile. Such voters deny pre-votes
(`KeptLeader`). `stable_leadership` asks the voters themselves whether they hear the leader; this oracle looks at what
arrived, so it also notices a voter that gives up too early.

Source: KIP-996; ours (ADR 063).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pykraft.core.effects import Report
from pykraft.core.state import Follower
from pykraft.sim.facts.view import View, dialed_id
from pykraft.sim.invariants.invariant import KeptLeader
from pykraft.sim.machine.node import Process, SimulatedNode
from pykraft.types import Listeners, ReportKind


@dataclass(frozen=True, slots=True)
class _Reach:
    """A follower that reaches its leader, and what it had seen of it when the last answer came."""

    process: Process
    epoch: int
    leader_id: int
    listeners: Listeners
    answers: int
    refusals: int
    departures: int
    since: int
    """Since which event."""
    heard_ms: int
    """When the last answer came, by the follower's clock; 0 before the first one."""
    has_heard: bool


class ReachedLeaderStays(KeptLeader):
    """No node becomes a candidate while a majority reaches the leader since the node began to ask for pre-votes."""

    _verb = "reached"

    def _begin(self) -> None:
        super()._begin()
        self._reaches: dict[int, _Reach] = {}

    def reported(self, node: SimulatedNode, report: Report) -> None:
        """A follower leaves a leader that contradicts itself."""
        if report.kind is ReportKind.LEADER_GIVEN_UP:
            self._reaches.pop(int(node.node_id), None)

    def after_event(self, node: SimulatedNode, now: View) -> None:
        """Remember an answer of the leader, and what ends the reach."""
        self._events += 1
        node_id, process = int(node.node_id), node.process
        raft = process.host.raft if process is not None else None
        if now.role != "follower" or process is None or raft is None or not isinstance(raft.state, Follower):
            self._reaches.pop(node_id, None)
            return
        state, tap, reach = raft.state, process.wiretap, self._reaches.get(node_id)
        answers, refusals, departures = (
            tap.fetch_answers_in[dialed_id(state), state.epoch],
            tap.refusals[dialed_id(state)],
            len(tap.departures),
        )
        if node.config.raft.never_leads and not state.has_fetched and self._is_silent(node, reach):
            # It gives its leader up as any other voter does, which then asks for pre-votes. This one stays a follower.
            self._reaches.pop(node_id, None)
            return
        known = (process, state.epoch, state.leader_id, state.leader_listeners)
        if reach is None or (reach.process, reach.epoch, reach.leader_id, reach.listeners) != known:
            self._reaches[node_id] = _Reach(*known, answers, refusals, departures, self._events, 0, has_heard=False)
        elif departures != reach.departures or refusals != reach.refusals:
            # Gone, as far as it knows: begin anew with the next answer.
            self._reaches[node_id] = _Reach(*known, answers, refusals, departures, self._events, 0, has_heard=False)
        elif answers != reach.answers and self._holding.get(state.leader_id, (-1, 0))[0] == state.epoch:
            since = reach.since if reach.has_heard else self._events
            heard_ms = node.clock.instant.mono_ms
            self._reaches[node_id] = _Reach(*known, answers, refusals, departures, since, heard_ms, has_heard=True)

    def _holds(self, now: View) -> bool:
        # What a follower believes does not count here.
        return now.leads

    def _deniers(self, holding: Sequence[int], epoch: int, began: int) -> Iterable[int]:
        reaching = [
            node_id
            for node_id, reach in self._reaches.items()
            if reach.leader_id in holding and reach.since < began and self._still_reaches(node_id, reach, epoch)
        ]
        return (*holding, *reaching)

    def _still_reaches(self, node_id: int, reach: _Reach, epoch: int) -> bool:
        node = self.facts.nodes[node_id]
        return reach.epoch == epoch and node.process is reach.process and not self._is_silent(node, reach)

    @staticmethod
    def _is_silent(node: SimulatedNode, reach: _Reach | None) -> bool:
        """True if no answer came for a fetch timeout, or none at all."""
        if reach is None or not reach.has_heard:
            return True
        return node.clock.instant.mono_ms - reach.heard_ms >= node.config.raft.fetch_timeout_ms

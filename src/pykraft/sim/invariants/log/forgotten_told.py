"""A leader that is asked for records by a voter that has acknowledged them in this epoch says so.

An older copy of that voter's directory was put back, and what it forgot may be committed because of it. Nobody else can
know: the voter fetches the rest, and all logs are equal again.

Source: ours (ADR 128).
"""

from __future__ import annotations

from typing import NamedTuple

from pykraft.core.state.leader import Leader
from pykraft.sim.invariants.invariant import Invariant, Report, SimulatedNode, Spoken, View
from pykraft.sim.machine.node import Process
from pykraft.types import ReportKind


class _Asked(NamedTuple):
    """A Fetch below what its sender had acknowledged, and how many answers the sender had when it sent it."""

    leader_id: int
    epoch: int
    process: Process
    answers: int
    seen: str


class ForgottenIsTold(Invariant):
    """A leader that answers a Fetch below what that voter has acknowledged in this epoch has raised an alarm."""

    def _begin(self) -> None:
        self._asked: dict[int, _Asked] = {}
        self._told: set[tuple[int, int, int]] = set()

    def reported(self, node: SimulatedNode, report: Report) -> None:
        """Note of whom a leader says so."""
        state = _led_by(node)
        if state is not None and report.kind is ReportKind.ACKNOWLEDGED_AGAIN:
            self._told.add((int(node.node_id), int(state.epoch), report.values[0]))

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        """Remember a Fetch of what was acknowledged; only nodes with an older directory have to send one."""
        node_id = int(node.node_id)
        if spoken.fetched is None or node_id not in self.facts.claims.older_ids or node.process is None:
            return
        self._asked.pop(node_id, None)
        target = self.facts.nodes.get(spoken.target_id or 0)
        state = _led_by(target) if target is not None else None
        voter = state.progress.known(node.key) if state is not None else None
        if target is None or state is None or voter is None or state.epoch != spoken.epoch:
            return
        acknowledged = voter.acknowledged_end_offset if state.progress.is_voter(node.key) else 0
        if spoken.fetched.offset < acknowledged:
            target_id, process = int(target.node_id), node.process
            answers = process.wiretap.fetch_answers_in[target_id, spoken.epoch]
            seen = f"voter {node_id} asks for {spoken.fetched.offset}, and has acknowledged {acknowledged}"
            self._asked[node_id] = _Asked(target_id, spoken.epoch, process, answers, seen)

    def after_event(self, node: SimulatedNode, _now: View) -> None:
        """Check whether the leader has answered in silence."""
        node_id = int(node.node_id)
        asked = self._asked.get(node_id)
        if asked is None or asked.process is not node.process:
            return
        if asked.process.wiretap.fetch_answers_in[asked.leader_id, asked.epoch] == asked.answers:
            return
        del self._asked[node_id]
        state = _led_by(self.facts.nodes[asked.leader_id])
        is_led = state is not None and state.epoch == asked.epoch
        if is_led and (asked.leader_id, asked.epoch, node_id) not in self._told:
            raise self.violated(f"{asked.seen}; node {asked.leader_id}, the leader of epoch {asked.epoch}, is silent")


def _led_by(node: SimulatedNode) -> Leader | None:
    raft = node.host.raft if node.host is not None else None
    return raft.state if raft is not None and isinstance(raft.state, Leader) else None

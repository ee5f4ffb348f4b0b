"""A core that follows Kafka's rules where ours help an election along, for worlds with Java voters.

After each step of our core it takes back what Kafka 4.3's voters do not do:

- A follower that gets EndQuorumEpoch only moves its timer: it still denies pre-votes, and denials of others count
  (ADR 004, 014).
- A refused connection says nothing about the leader (ADR 063).
- A voter that was denied a pre-vote does not ask that voter again in the same round (ADR 010).

Everything else on the wire is the same in both, which the differential tests show.

Source: Kafka ``FollowerState``, ``ProspectiveState`` and ``KafkaRaftClient.handleEndQuorumEpochRequest``.
"""

from collections.abc import Mapping
from dataclasses import replace

from pykraft.core.effects import Effect, Send
from pykraft.core.events import Event, RequestReceived, SendFailed
from pykraft.core.messages import EndQuorumEpochRequest, VoteRequest
from pykraft.core.raft import Raft
from pykraft.core.state import Follower, Prospective
from pykraft.sim.machine.node import SimulatedNode
from pykraft.types import Instant


class KafkaRaft(Raft):
    """The core of a simulated Java voter."""

    def step(self, event: Event, now: Instant) -> list[Effect]:
        """Take our step, then take back what Kafka would not have done."""
        was, replica = self.state, self._replica
        if isinstance(event, SendFailed):
            event = replace(event, is_refused=False)
        message = event.message if isinstance(event, RequestReceived) else None
        if isinstance(was, Follower) and isinstance(message, EndQuorumEpochRequest):
            # Kafka believes the request alone, as we do without ``has_fetched``, and yields to any higher epoch.
            replica.state = replace(was, has_fetched=False)
        effects = super().step(event, now)
        state = self.state
        if isinstance(message, EndQuorumEpochRequest):
            if isinstance(was, Follower) and isinstance(state, Follower) and was.leader_id == state.leader_id:
                replica.state = replace(state, has_fetched=was.has_fetched, leader_has_left=False)
            elif isinstance(state, Prospective):
                replica.state = replace(state, leader_has_left=False)
        elif isinstance(message, VoteRequest) and isinstance(was, Prospective) and isinstance(state, Prospective):
            effects = self._without_repetition(was, state, message, effects)
        return effects

    def _without_repetition(
        self, was: Prospective, state: Prospective, message: VoteRequest, effects: list[Effect]
    ) -> list[Effect]:
        """Take back our second PreVote to a candidate that denied the first: Kafka does not repeat it."""
        candidate_id = message.candidate.id
        if candidate_id not in was.tally.rejected or candidate_id in state.tally.rejected:
            return effects
        replica = self._replica
        replica.state = replace(state, tally=state.tally.record(candidate_id, granted=False))
        kept: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, VoteRequest) and effect.peer.id == candidate_id:
                replica.connections.received(effect.peer.id, effect.correlation_id)
            else:
                kept.append(effect)
        return kept


def let_one_never_lead(nodes: Mapping[int, SimulatedNode], never_leads_id: int) -> None:
    """Before the start: this node is a voter that never leads, and all others follow Kafka's rules."""
    for node_id, node in nodes.items():
        if node_id != never_leads_id:
            node.core = KafkaRaft
        else:
            node.config = replace(node.config, raft=replace(node.config.raft, never_leads=True))

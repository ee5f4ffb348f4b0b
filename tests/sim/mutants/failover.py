"""Bugs of followers whose leader's connections break or are refused: they campaign too often, too early or too late."""

from __future__ import annotations

from dataclasses import replace

from pykraft.core.events import SendFailed
from pykraft.core.on import dispatch, early_campaign
from pykraft.core.replica import Replica
from pykraft.core.state import Follower
from pykraft.types import Instant
from tests.sim.mutants.mutant import Mutant
from tests.sim.mutants.patch import Patch


def broken_connection_counts_as_refused(patch: Patch) -> None:
    """A follower whose connection breaks asks for pre-votes at once, although it could connect again."""
    on_send_failed = dispatch.on_send_failed

    def on_failed(replica: Replica, event: SendFailed, now: Instant) -> None:
        on_send_failed(replica, replace(event, is_refused=True), now)

    patch.everywhere(on_send_failed, on_failed)


def each_refusal_starts_a_campaign(patch: Patch) -> None:
    """A follower asks for pre-votes again after each refused connection, although nothing has changed since."""
    on_leader_refused = early_campaign.on_leader_refused

    def on_refused(replica: Replica, peer_id: int, now: Instant) -> None:
        state = replica.state
        if isinstance(state, Follower) and state.early_deadline_ms is None:
            replica.state = replace(state, has_fetched=True)
        on_leader_refused(replica, peer_id, now)

    patch.everywhere(on_leader_refused, on_refused)


def refused_connections_mean_nothing(patch: Patch) -> None:
    """A follower whose leader refuses connections waits for its fetch timeout."""
    patch.everywhere(early_campaign.on_leader_refused, lambda replica, peer_id, now: None)


MUTANTS = (
    Mutant(
        plant=broken_connection_counts_as_refused,
        source="etcd's PreVote without CheckQuorum (a partitioned node disturbs the leader); ADR 063",
        scenario="failover",
    ),
    Mutant(
        plant=each_refusal_starts_a_campaign, source="ADR 063 (one pre-vote for a lost connection)", scenario="failover"
    ),
    Mutant(
        plant=refused_connections_mean_nothing,
        source="Kafka FollowerState (only the timeout counts)",
        scenario="failover",
    ),
)

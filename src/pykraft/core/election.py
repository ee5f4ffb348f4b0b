"""The vote tally of one election, and the timeouts before the next one.

A tally keeps the voter set that it started with; later changes of the voter set do not affect it.

Source: Kafka ``EpochElection``; KIP-996; KIP-595 §Vote and §EndQuorumEpoch (successor back-off).
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from pykraft.core.quorum import majority_of
from pykraft.types import NodeId, ReplicaKey, VoterSet

NEVER_MS = 2**63 - 1
"""A deadline that never expires (mono ms)."""
EARLY_BACKOFFS = 10
"""An early campaign, and the range of the random pause before it, last this many retry back-offs (ADR 063)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Which voters granted and which rejected; all others in ``voters`` have not answered."""

    voters: frozenset[NodeId]
    granted: frozenset[NodeId]
    rejected: frozenset[NodeId] = frozenset()

    @classmethod
    def begin(cls, voters: VoterSet, local: ReplicaKey) -> Tally:
        """Start a tally with the local vote, if this replica is a voter."""
        everybody = frozenset(voters.ids)
        # A removed voter may still campaign (`Replica.may_lead`), but it has no vote of its own, and none of the voter
        # that has its id and another directory.
        itself = everybody & {local.id}
        if voters.is_voter(local):
            return cls(voters=everybody, granted=itself)
        return cls(voters=everybody, granted=frozenset(), rejected=itself)

    def record(self, voter_id: NodeId, *, granted: bool) -> Tally:
        """A copy of this tally in which the voter's latest answer replaces an earlier one."""
        assert voter_id in self.voters
        alone = frozenset({voter_id})
        return Tally(
            voters=self.voters,
            granted=self.granted | alone if granted else self.granted - alone,
            rejected=self.rejected - alone if granted else self.rejected | alone,
        )

    def forget(self, voter_id: NodeId) -> Tally:
        """A copy of this tally without the voter's rejection, so that the voter is asked again."""
        return Tally(voters=self.voters, granted=self.granted, rejected=self.rejected - {voter_id})

    @property
    def unanswered(self) -> tuple[NodeId, ...]:
        """Voters that have not answered, in ascending order."""
        return tuple(sorted(self.voters - self.granted - self.rejected))

    @property
    def is_won(self) -> bool:
        """True when a majority granted."""
        return len(self.granted) >= majority_of(len(self.voters))

    @property
    def is_lost(self) -> bool:
        """True when a majority is no longer possible."""
        return len(self.voters) - len(self.rejected) < majority_of(len(self.voters))


def draw_election_timeout_ms(rng: Random, timeout_ms: int) -> int:
    """A random timeout, uniform in [timeout, 2 timeout), in whole milliseconds; 0 for 0."""
    return timeout_ms + rng.randrange(timeout_ms) if timeout_ms else 0


def draw_early_pause_ms(rng: Random, retry_backoff_ms: int) -> int:
    """How long a voter waits after its leader refused a connection, before it asks for pre-votes."""
    # The other followers lost their connections at the same moment, and find out that the leader refuses new ones one
    # retry back-off later. The spread is long compared with an election, so two rarely campaign in the same one.
    backoff_ms = max(1, retry_backoff_ms)
    return backoff_ms + rng.randrange(EARLY_BACKOFFS * backoff_ms)


def early_campaign_ms(retry_backoff_ms: int) -> int:
    """How long such a voter asks for pre-votes, before it follows the leader again."""
    return EARLY_BACKOFFS * max(1, retry_backoff_ms)


def successor_backoff_ms(local: ReplicaKey, successors: tuple[ReplicaKey, ...], backoff_ms_max: int) -> int:
    """How long a follower waits after EndQuorumEpoch: the first successor not at all, the last one longest."""
    count = len(successors)
    # A restarted leader knows nobody's log and sends an empty list. Then count and position are both 0 and nobody
    # waits, as in Kafka.
    position = next((at for at, key in enumerate(successors) if key.matches(local)), count)
    if position == 0:
        return 0
    if position < count:
        return min(backoff_ms_max, (backoff_ms_max >> (count - 1)) << (position - 1))
    # A replica that is not in the list waits the maximum.
    return backoff_ms_max

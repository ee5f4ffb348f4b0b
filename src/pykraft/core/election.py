"""The tally of one election, and how long a replica waits before the next.

A tally starts from the voter set at its begin and does not follow later changes of it.

Source: Kafka ``EpochElection``; KIP-996; KIP-595 §Vote and §EndQuorumEpoch (successor back-off).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from pykraft.core.quorum import majority_of
from pykraft.types import NodeId, ReplicaKey

NEVER_MS = 2**63 - 1
"""A deadline that does not come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Who granted, who rejected; everyone else in ``voters`` has not answered."""

    voters: frozenset[NodeId]
    granted: frozenset[NodeId]
    rejected: frozenset[NodeId] = frozenset()

    @classmethod
    def begin(cls, voters: Iterable[NodeId], local_id: NodeId) -> Tally:
        """A tally in which only the local vote is in; none, for one that is no voter any more and has to lead."""
        everybody = frozenset(voters)
        return cls(voters=everybody, granted=everybody & {local_id})

    def record(self, voter_id: NodeId, *, granted: bool) -> Tally:
        """This tally with the voter's latest answer in place of an earlier one."""
        assert voter_id in self.voters
        alone = frozenset({voter_id})
        return Tally(
            voters=self.voters,
            granted=self.granted | alone if granted else self.granted - alone,
            rejected=self.rejected - alone if granted else self.rejected | alone,
        )

    def forget(self, voter_id: NodeId) -> Tally:
        """This tally without the voter's rejection, if there is one: the voter is to be asked again."""
        return Tally(voters=self.voters, granted=self.granted, rejected=self.rejected - {voter_id})

    @property
    def unanswered(self) -> tuple[NodeId, ...]:
        """Voters still to be asked, ascending."""
        return tuple(sorted(self.voters - self.granted - self.rejected))

    @property
    def is_won(self) -> bool:
        """True when a majority granted."""
        return len(self.granted) >= majority_of(len(self.voters))

    @property
    def is_lost(self) -> bool:
        """True when a majority can no longer be reached."""
        return len(self.voters) - len(self.rejected) < majority_of(len(self.voters))


def draw_election_timeout_ms(rng: Random, timeout_ms: int) -> int:
    """Uniform in [timeout, 2 timeout), in whole milliseconds; 0 for 0."""
    return timeout_ms + rng.randrange(timeout_ms) if timeout_ms else 0


def successor_backoff_ms(local: ReplicaKey, successors: tuple[ReplicaKey, ...], backoff_ms_max: int) -> int:
    """How long a follower waits after its leader said goodbye: the first not at all, the last longest.

    A replica that is not in the list waits the maximum. With an empty one, which a leader sends that has restarted and
    knows of nobody's log, nobody waits: as in Kafka, whose position behind the end of the list is 0 then.
    """
    count = len(successors)
    position = next((at for at, key in enumerate(successors) if key.matches(local)), count)
    if position == 0:
        return 0
    if position < count:
        return min(backoff_ms_max, (backoff_ms_max >> (count - 1)) << (position - 1))
    return backoff_ms_max

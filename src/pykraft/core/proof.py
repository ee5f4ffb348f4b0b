"""Whether this replica's directory proves that it is the voter whose id it has.

A directory that was never formatted, or that was emptied, proves nothing: the voter lost its epoch, its votes and its
acknowledged records with it. Without proof, such a replica grants no vote, does not campaign, and fetches without its
id, so that no leader counts it.

Data only; the rules are in ``core.on.proof``. Source: ours (ADR 022); KAFKA-14077.
"""

from dataclasses import dataclass
from typing import Final

from pykraft.core.quorum import majority_of
from pykraft.types import EPOCH_ZERO, Epoch, NodeId, Offset

NO_EPOCH: Final = Epoch(-1)
"""Lower than every epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What the directory proves. ``votes_above``: this replica may vote in later epochs only.

    ``has_fresh_id``: the directory id was drawn at random for this directory, so no voter set can name it yet.
    ``was_complete``: it was proven until now, so a log that this start finds is this replica's own.
    """

    is_complete: bool
    votes_above: Epoch = NO_EPOCH
    has_fresh_id: bool = False
    was_complete: bool = False


PROVEN: Final = Proof(is_complete=True)
"""The proof of a directory that was formatted, or that has all its files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The other voters' answers to an unproven replica in ``epoch``, the epoch of its PreVotes.

    ``empty``: voters that granted a pre-vote to an empty log. ``told``: voters that denied it; their logs are not
    empty, and the denial tells that ``epoch`` is durable there. A voter that is unproven itself denies with an error,
    and is in neither set.
    """

    has_fresh_id: bool
    others: frozenset[NodeId] | None = None
    """The voter set without this replica; None while it is not known."""
    epoch: Epoch = EPOCH_ZERO
    empty: frozenset[NodeId] = frozenset()
    told: frozenset[NodeId] = frozenset()
    blocked_epoch: Epoch | None = None
    """The first epoch in which every majority with this replica contains a voter that told."""
    has_old_voter: bool = False
    """True when a voter does not support pre-votes: it may have started any epoch alone."""
    asked: frozenset[NodeId] = frozenset()
    """The voters asked in this round."""
    round_deadline_ms: int | None = None
    """When the next round begins (mono ms); None before the first."""
    probe: int | None = None
    """Correlation id of the Fetch that asks the leader for its log end; None before that."""
    is_probed: bool = False
    """True once the leader answered the probe, whatever the answer was."""
    until_offset: Offset | None = None
    """The leader's log end after all had told: this voter acknowledged nothing at or above it in ``epoch``."""
    reported: frozenset[NodeId] | None = None
    """The voters that the last report to the operator named."""

    @property
    def has_all_told(self) -> bool:
        """True when every other voter has told its epoch, or when there is no other voter."""
        return self.others is not None and self.others <= self.told

    @property
    def are_all_empty(self) -> bool:
        """True when every other voter has an empty log, or when there is no other voter."""
        return self.others is not None and self.others <= self.empty

    @property
    def unheard(self) -> frozenset[NodeId]:
        """Voters that have not told their epoch."""
        return frozenset() if self.others is None else self.others - self.told

    @property
    def is_blocking(self) -> bool:
        """True when every majority that contains this replica also contains a voter that told its epoch."""
        if self.others is None:
            return False
        count = len(self.others) + 1
        return len(self.told) > count - majority_of(count)

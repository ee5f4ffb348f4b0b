"""What a replica knows of itself: whether its directory proves that it is the voter whose id it has.

A directory that nobody formatted, or that was emptied, proves nothing: with it the voter lost its epoch, its votes and
what it acknowledged. Until it has a proof such a replica is nobody's voter: it grants no vote, does not campaign and
fetches without its id, so no leader counts it.

Pure data; the rules are in ``core.on.proof``. Source: ours (ADR 022); KAFKA-14077.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pykraft.core.quorum import majority_of
from pykraft.types import EPOCH_ZERO, Epoch, NodeId, Offset

NO_EPOCH: Final = Epoch(-1)
"""Below all epochs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What the directory says. ``votes_above``: this replica may vote in later epochs only.

    ``has_fresh_id``: the directory id was drawn at random for this directory, so no voter set can name it yet.
    """

    is_complete: bool
    votes_above: Epoch = NO_EPOCH
    has_fresh_id: bool = False


PROVEN: Final = Proof(is_complete=True)
"""What a directory proves that was formatted, or that has all its files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What an unproven replica heard from the other voters in ``epoch``, which is the one that it asked in.

    ``empty``: they granted a pre-vote to an empty log. ``told``: they denied it, so ``epoch`` is durable there and
    their logs are not empty; a voter that is unproven itself denies with an error, and is not among them.
    """

    has_fresh_id: bool
    others: frozenset[NodeId] = frozenset()
    """The voters without this replica."""
    epoch: Epoch = EPOCH_ZERO
    empty: frozenset[NodeId] = frozenset()
    told: frozenset[NodeId] = frozenset()
    blocked_epoch: Epoch | None = None
    """The first epoch in which so many told that no majority with this replica is without one of them."""
    has_old_voter: bool = False
    """True when a voter does not know pre-votes: it may have opened any epoch alone."""
    asked: frozenset[NodeId] = frozenset()
    """In this round."""
    round_deadline_ms: int | None = None
    """When the next round begins (mono ms); None before the first."""
    probe: int | None = None
    """Correlation id of the Fetch that asked the leader where its log ends; None before that."""
    is_probed: bool = False
    """True once the leader answered it, in whatever way."""
    until_offset: Offset | None = None
    """Where the leader's log ended once all had told: in ``epoch`` nothing was acknowledged at or above this."""
    reported: frozenset[NodeId] | None = None
    """For whom the operator was told that this replica waits."""

    @property
    def has_all_told(self) -> bool:
        """True when every other voter has told."""
        return bool(self.others) and self.others <= self.told

    @property
    def are_all_empty(self) -> bool:
        """True when every other voter has an empty log; also when there is none."""
        return self.others <= self.empty

    @property
    def unheard(self) -> frozenset[NodeId]:
        """Voters that did not tell."""
        return self.others - self.told

    @property
    def is_blocking(self) -> bool:
        """True when every majority that this replica belongs to has one of those that told."""
        count = len(self.others) + 1
        return len(self.told) > count - majority_of(count)

"""Oracles of elections: epochs, votes, and who leads."""

from __future__ import annotations

from pykraft.sim.invariants.elections.announced import SilentVotersAreTold
from pykraft.sim.invariants.elections.check_quorum import LeaderWithoutMajorityResigns
from pykraft.sim.invariants.elections.elected import LeaderHasItsVotes
from pykraft.sim.invariants.elections.epoch_growth import EpochsGrowWithinBudget
from pykraft.sim.invariants.elections.goodbye import GoodbyesAreHeeded
from pykraft.sim.invariants.elections.legal_moves import LegalMoves
from pykraft.sim.invariants.elections.living_leader import LivingLeaderIsFollowed
from pykraft.sim.invariants.elections.monotonic_epoch import MonotonicEpoch
from pykraft.sim.invariants.elections.named_leader import LeaderIsDurableFirst
from pykraft.sim.invariants.elections.new_epoch import EpochBeginsWithCandidate
from pykraft.sim.invariants.elections.old_epochs import OldEpochsAreFenced
from pykraft.sim.invariants.elections.prospective import NoLastingProspective
from pykraft.sim.invariants.elections.single_leader import SingleLeader
from pykraft.sim.invariants.elections.spoken_epoch import EpochIsDurableFirst
from pykraft.sim.invariants.elections.stable_leadership import StableLeadership
from pykraft.sim.invariants.elections.transfer import TransferLeavesNothing
from pykraft.sim.invariants.elections.transfer_pauses import TransferPausesAreShort
from pykraft.sim.invariants.elections.up_to_date import CandidateIsUpToDate
from pykraft.sim.invariants.elections.vote import OneVote
from pykraft.sim.invariants.elections.vote_kept import VotesAreForCandidates
from pykraft.sim.invariants.elections.vote_key import VotesAreOfTheDisk

__all__ = [
    "CandidateIsUpToDate",
    "EpochBeginsWithCandidate",
    "EpochIsDurableFirst",
    "EpochsGrowWithinBudget",
    "GoodbyesAreHeeded",
    "LeaderHasItsVotes",
    "LeaderIsDurableFirst",
    "LeaderWithoutMajorityResigns",
    "LegalMoves",
    "LivingLeaderIsFollowed",
    "MonotonicEpoch",
    "NoLastingProspective",
    "OldEpochsAreFenced",
    "OneVote",
    "SilentVotersAreTold",
    "SingleLeader",
    "StableLeadership",
    "TransferLeavesNothing",
    "TransferPausesAreShort",
    "VotesAreForCandidates",
    "VotesAreOfTheDisk",
]

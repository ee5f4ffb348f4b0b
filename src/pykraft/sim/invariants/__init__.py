"""What must hold in every world: one invariant, one file, one source.

Each is told of what happens (`Invariant`) and raises `ViolationError`; none changes anything in the world.
"""

from __future__ import annotations

from pykraft.sim.invariants.acknowledged import AcknowledgedIsCommitted
from pykraft.sim.invariants.announced import SilentVotersAreTold
from pykraft.sim.invariants.append_epoch import AppendedEpochIsKnown
from pykraft.sim.invariants.asked_in_time import SaveIsAskedInTime
from pykraft.sim.invariants.batch_size import BatchesFitAnswers
from pykraft.sim.invariants.blameless import NobodyIsBlamed
from pykraft.sim.invariants.calm_quorum import CalmQuorumCommits
from pykraft.sim.invariants.caught_up import NewVoterHasCaughtUp
from pykraft.sim.invariants.change_told import ChangeIsCommittedWhenTold
from pykraft.sim.invariants.check_quorum import LeaderWithoutMajorityResigns
from pykraft.sim.invariants.cleaned import CleanedIsInSnapshot
from pykraft.sim.invariants.committed import CommittedAlike
from pykraft.sim.invariants.committed_cut import CommittedIsNeverCut
from pykraft.sim.invariants.decided import EveryProposalIsDecided
from pykraft.sim.invariants.delivered_committed import DeliveredIsCommitted
from pykraft.sim.invariants.duplicates import NoDuplicates
from pykraft.sim.invariants.durable import PersistedIsDurable
from pykraft.sim.invariants.durable_stays import AcknowledgedSurvivesRestart
from pykraft.sim.invariants.elected import LeaderHasItsVotes
from pykraft.sim.invariants.emptied import EmptiedReturnsWhole
from pykraft.sim.invariants.endpoints import VotersCanBeDialed
from pykraft.sim.invariants.epoch_growth import EpochsGrowWithinBudget
from pykraft.sim.invariants.fetch_durable import FetchIsDurableFirst
from pykraft.sim.invariants.foreign_rate import StrangersAreAskedSeldom
from pykraft.sim.invariants.foreign_records import StrangersAddNothing
from pykraft.sim.invariants.healing import Healing
from pykraft.sim.invariants.high_watermark import MonotonicHighWatermark
from pykraft.sim.invariants.in_order import DeliveredOnceInOrder
from pykraft.sim.invariants.in_use import SnapshotInUseStays
from pykraft.sim.invariants.index_files import IndexesAreOfTheirLogs
from pykraft.sim.invariants.invariant import Invariant, ViolationError
from pykraft.sim.invariants.known_damage import DamageStaysKnown
from pykraft.sim.invariants.leader_completeness import LeaderCompleteness
from pykraft.sim.invariants.leader_loads import LeaderNeverLoadsSnapshot
from pykraft.sim.invariants.legal_moves import LegalMoves
from pykraft.sim.invariants.level_first import LevelBeforeVoters
from pykraft.sim.invariants.linearizable import Linearizable
from pykraft.sim.invariants.linger import LingerIsBounded
from pykraft.sim.invariants.log_matching import LogMatching
from pykraft.sim.invariants.log_start import LogStartIsSnapshot
from pykraft.sim.invariants.log_voters import VotersAreOfTheLog
from pykraft.sim.invariants.majority import MajorityHoldsHighWatermark
from pykraft.sim.invariants.monotonic_epoch import MonotonicEpoch
from pykraft.sim.invariants.named_leader import LeaderIsDurableFirst
from pykraft.sim.invariants.new_epoch import EpochBeginsWithCandidate
from pykraft.sim.invariants.next_slice import NextSliceFollows
from pykraft.sim.invariants.one_batch import OneBatchAStep
from pykraft.sim.invariants.one_change import OneChangeInDoubt
from pykraft.sim.invariants.one_fetch import OneFetchInFlight
from pykraft.sim.invariants.one_voter import VotersChangeByOne
from pykraft.sim.invariants.operator_answered import OperatorsAreAnswered
from pykraft.sim.invariants.own_epoch import OwnEpochBeforeVoters
from pykraft.sim.invariants.phantoms import NoPhantoms
from pykraft.sim.invariants.plain_listener import PlainListenerMissesOnlyTheCleaned
from pykraft.sim.invariants.prospective import NoLastingProspective
from pykraft.sim.invariants.quarantine import DamagedTakesNoPart
from pykraft.sim.invariants.real_damage import DamageIsReal
from pykraft.sim.invariants.rejected import RejectedStaysOut
from pykraft.sim.invariants.removed_leader import RemovedLeaderResigns
from pykraft.sim.invariants.repeats import NobodyRepeatsItself
from pykraft.sim.invariants.returns_whole import DamagedReturnsWhole
from pykraft.sim.invariants.room import RoomIsUsed
from pykraft.sim.invariants.served import ServedIsSound
from pykraft.sim.invariants.single_leader import SingleLeader
from pykraft.sim.invariants.snapshot_alike import SnapshotsAlike
from pykraft.sim.invariants.snapshot_committed import SnapshotIsCommitted
from pykraft.sim.invariants.snapshot_durable import SnapshotIsDurable
from pykraft.sim.invariants.snapshot_voters import SnapshotNamesItsVoters
from pykraft.sim.invariants.spoken_epoch import EpochIsDurableFirst
from pykraft.sim.invariants.stable_leadership import StableLeadership
from pykraft.sim.invariants.stays_up import NodesStayUp
from pykraft.sim.invariants.told_leader import LeaderIsToldInTime
from pykraft.sim.invariants.transfer import TransferLeavesNothing
from pykraft.sim.invariants.trickle import NobodyWaitsForATrickle
from pykraft.sim.invariants.truth_told import ClientsAreToldTheTruth
from pykraft.sim.invariants.up_to_date import CandidateIsUpToDate
from pykraft.sim.invariants.vote import OneVote
from pykraft.sim.invariants.vote_kept import VotesAreForCandidates
from pykraft.sim.invariants.vote_key import VotesAreOfTheDisk

ALL: tuple[type[Invariant], ...] = (
    # elections
    MonotonicEpoch,
    EpochIsDurableFirst,
    EpochsGrowWithinBudget,
    LeaderIsDurableFirst,
    OneVote,
    VotesAreForCandidates,
    SingleLeader,
    CandidateIsUpToDate,
    DamagedTakesNoPart,
    LegalMoves,
    EpochBeginsWithCandidate,
    StableLeadership,
    LeaderWithoutMajorityResigns,
    SilentVotersAreTold,
    LeaderHasItsVotes,
    VotesAreOfTheDisk,
    TransferLeavesNothing,
    # voters
    VotersAreOfTheLog,
    OneChangeInDoubt,
    VotersChangeByOne,
    OwnEpochBeforeVoters,
    LevelBeforeVoters,
    NewVoterHasCaughtUp,
    RemovedLeaderResigns,
    ChangeIsCommittedWhenTold,
    VotersCanBeDialed,
    OperatorsAreAnswered,
    # logs
    LogMatching,
    LeaderCompleteness,
    CommittedIsNeverCut,
    AppendedEpochIsKnown,
    StrangersAddNothing,
    OneFetchInFlight,
    BatchesFitAnswers,
    OneBatchAStep,
    IndexesAreOfTheirLogs,
    # snapshots
    LogStartIsSnapshot,
    CleanedIsInSnapshot,
    SnapshotIsDurable,
    SnapshotIsCommitted,
    SnapshotsAlike,
    SnapshotNamesItsVoters,
    SaveIsAskedInTime,
    NextSliceFollows,
    SnapshotInUseStays,
    LeaderNeverLoadsSnapshot,
    # durability
    PersistedIsDurable,
    FetchIsDurableFirst,
    AcknowledgedSurvivesRestart,
    DamageIsReal,
    DamageStaysKnown,
    DamagedReturnsWhole,
    EmptiedReturnsWhole,
    ServedIsSound,
    MonotonicHighWatermark,
    MajorityHoldsHighWatermark,
    # the application
    DeliveredOnceInOrder,
    PlainListenerMissesOnlyTheCleaned,
    DeliveredIsCommitted,
    CommittedAlike,
    LeaderIsToldInTime,
    LingerIsBounded,
    RoomIsUsed,
    AcknowledgedIsCommitted,
    RejectedStaysOut,
    NoPhantoms,
    NoDuplicates,
    EveryProposalIsDecided,
    ClientsAreToldTheTruth,
    Linearizable,
    # all goes on
    NodesStayUp,
    NobodyIsBlamed,
    NobodyRepeatsItself,
    NoLastingProspective,
    NobodyWaitsForATrickle,
    StrangersAreAskedSeldom,
    CalmQuorumCommits,
    Healing,
)

__all__ = ["ALL", "Invariant", "ViolationError"]

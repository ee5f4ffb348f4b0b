"""The rules that must hold in every world: one invariant per file, each with its source.

Each oracle is told what happens (`Invariant`) and raises `ViolationError`; none changes anything in the world.
"""

from __future__ import annotations

from pykraft.sim.invariants.clients.acknowledged import AcknowledgedIsCommitted
from pykraft.sim.invariants.clients.decided import EveryProposalIsDecided
from pykraft.sim.invariants.clients.delivered_committed import DeliveredIsCommitted
from pykraft.sim.invariants.clients.duplicates import NoDuplicates
from pykraft.sim.invariants.clients.in_order import DeliveredOnceInOrder
from pykraft.sim.invariants.clients.late_listener import LateListenersHearWhoLeads
from pykraft.sim.invariants.clients.linearizable import Linearizable
from pykraft.sim.invariants.clients.linger import LingerIsBounded
from pykraft.sim.invariants.clients.phantoms import NoPhantoms
from pykraft.sim.invariants.clients.plain_listener import PlainListenerMissesOnlyTheCleaned
from pykraft.sim.invariants.clients.producer_answers import ProducersAreToldTheTruth
from pykraft.sim.invariants.clients.producer_order import ProducersKeepOrder
from pykraft.sim.invariants.clients.rejected import RejectedStaysOut
from pykraft.sim.invariants.clients.room import RoomIsUsed
from pykraft.sim.invariants.clients.told_leader import LeaderIsToldInTime
from pykraft.sim.invariants.clients.truth_told import ClientsAreToldTheTruth
from pykraft.sim.invariants.disks.durable import PersistedIsDurable
from pykraft.sim.invariants.disks.durable_stays import AcknowledgedSurvivesRestart
from pykraft.sim.invariants.disks.emptied import EmptiedReturnsWhole
from pykraft.sim.invariants.disks.index_files import IndexesAreOfTheirLogs
from pykraft.sim.invariants.disks.known_damage import DamageStaysKnown
from pykraft.sim.invariants.disks.proof_read import ProofsAreReadBack
from pykraft.sim.invariants.disks.quarantine import DamagedTakesNoPart
from pykraft.sim.invariants.disks.read_offline import OfflineReadersSeeTheNewest
from pykraft.sim.invariants.disks.real_damage import DamageIsReal
from pykraft.sim.invariants.disks.returns_whole import DamagedReturnsWhole
from pykraft.sim.invariants.disks.served import ServedIsSound
from pykraft.sim.invariants.elections.abstention import CampaignsOfLastResort
from pykraft.sim.invariants.elections.announced import SilentVotersAreTold
from pykraft.sim.invariants.elections.check_quorum import LeaderWithoutMajorityResigns
from pykraft.sim.invariants.elections.dead_leader import DeadLeaderIsMissed
from pykraft.sim.invariants.elections.early_campaign import EarlyCampaignsHaveReason
from pykraft.sim.invariants.elections.elected import LeaderHasItsVotes
from pykraft.sim.invariants.elections.epoch_growth import EpochsGrowWithinBudget
from pykraft.sim.invariants.elections.goodbye import GoodbyesAreHeeded
from pykraft.sim.invariants.elections.legal_moves import LegalMoves
from pykraft.sim.invariants.elections.living_leader import LivingLeaderIsFollowed
from pykraft.sim.invariants.elections.monotonic_epoch import MonotonicEpoch
from pykraft.sim.invariants.elections.named_leader import LeaderIsDurableFirst
from pykraft.sim.invariants.elections.new_epoch import EpochBeginsWithCandidate
from pykraft.sim.invariants.elections.old_epochs import OldEpochsAreFenced
from pykraft.sim.invariants.elections.pre_vote import PreVotesAreGranted
from pykraft.sim.invariants.elections.reached_leader import ReachedLeaderStays
from pykraft.sim.invariants.elections.single_leader import SingleLeader
from pykraft.sim.invariants.elections.spoken_epoch import EpochIsDurableFirst
from pykraft.sim.invariants.elections.stable_leadership import StableLeadership
from pykraft.sim.invariants.elections.transfer import TransferLeavesNothing
from pykraft.sim.invariants.elections.transfer_pauses import TransferPausesAreShort
from pykraft.sim.invariants.elections.up_to_date import CandidateIsUpToDate
from pykraft.sim.invariants.elections.vote import OneVote
from pykraft.sim.invariants.elections.vote_kept import VotesAreForCandidates
from pykraft.sim.invariants.elections.vote_key import VotesAreOfTheDisk
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.invariants.liveness.blameless import NobodyIsBlamed
from pykraft.sim.invariants.liveness.calm_quorum import CalmQuorumCommits
from pykraft.sim.invariants.liveness.foreign_rate import StrangersAreAskedSeldom
from pykraft.sim.invariants.liveness.forgers import QuorumOutlastsForgers
from pykraft.sim.invariants.liveness.healing import Healing
from pykraft.sim.invariants.liveness.one_fetch import OneFetchInFlight
from pykraft.sim.invariants.liveness.prospective import NoLastingProspective
from pykraft.sim.invariants.liveness.questions import QuestionsArePaced
from pykraft.sim.invariants.liveness.repeats import NobodyRepeatsItself
from pykraft.sim.invariants.liveness.stays_up import NodesStayUp
from pykraft.sim.invariants.liveness.trickle import NobodyWaitsForATrickle
from pykraft.sim.invariants.liveness.wake_ups import NobodyWakesForNothing
from pykraft.sim.invariants.log.append_epoch import AppendedEpochIsKnown
from pykraft.sim.invariants.log.batch_size import BatchesFitAnswers
from pykraft.sim.invariants.log.brief_leader import BriefLeaderHandsOver
from pykraft.sim.invariants.log.committed import CommittedAlike
from pykraft.sim.invariants.log.committed_cut import CommittedIsNeverCut
from pykraft.sim.invariants.log.committed_known import CommittedStaysKnown
from pykraft.sim.invariants.log.cuts_told import CutsAreTold
from pykraft.sim.invariants.log.fetch_durable import FetchIsDurableFirst
from pykraft.sim.invariants.log.foreign_records import StrangersAddNothing
from pykraft.sim.invariants.log.forgotten_told import ForgottenIsTold
from pykraft.sim.invariants.log.high_watermark import MonotonicHighWatermark
from pykraft.sim.invariants.log.leader_completeness import LeaderCompleteness
from pykraft.sim.invariants.log.log_matching import LogMatching
from pykraft.sim.invariants.log.majority import MajorityHoldsHighWatermark
from pykraft.sim.invariants.log.one_batch import OneBatchAStep
from pykraft.sim.invariants.membership.asked_levels import NewVotersAreAsked
from pykraft.sim.invariants.membership.caught_up import NewVoterHasCaughtUp
from pykraft.sim.invariants.membership.change_told import ChangeIsCommittedWhenTold
from pykraft.sim.invariants.membership.endpoints import VotersCanBeDialed
from pykraft.sim.invariants.membership.level_first import LevelBeforeVoters
from pykraft.sim.invariants.membership.log_voters import VotersAreOfTheLog
from pykraft.sim.invariants.membership.one_change import OneChangeInDoubt
from pykraft.sim.invariants.membership.one_voter import VotersChangeByOne
from pykraft.sim.invariants.membership.operator_answered import OperatorsAreAnswered
from pykraft.sim.invariants.membership.own_epoch import OwnEpochBeforeVoters
from pykraft.sim.invariants.membership.removed_leader import RemovedLeaderResigns
from pykraft.sim.invariants.membership.twins_told import TwinsAreTold
from pykraft.sim.invariants.snapshots.asked_in_time import SaveIsAskedInTime
from pykraft.sim.invariants.snapshots.cleaned import CleanedIsInSnapshot
from pykraft.sim.invariants.snapshots.failed_told import FailedSnapshotsAreTold
from pykraft.sim.invariants.snapshots.in_use import SnapshotInUseStays
from pykraft.sim.invariants.snapshots.leader_loads import LeaderNeverLoadsSnapshot
from pykraft.sim.invariants.snapshots.log_start import LogStartIsSnapshot
from pykraft.sim.invariants.snapshots.made_again import SnapshotsAreMadeAgain
from pykraft.sim.invariants.snapshots.next_slice import NextSliceFollows
from pykraft.sim.invariants.snapshots.parts import PartsAreRemoved
from pykraft.sim.invariants.snapshots.snapshot_alike import SnapshotsAlike
from pykraft.sim.invariants.snapshots.snapshot_committed import SnapshotIsCommitted
from pykraft.sim.invariants.snapshots.snapshot_durable import SnapshotIsDurable
from pykraft.sim.invariants.snapshots.snapshot_voters import SnapshotNamesItsVoters
from pykraft.sim.invariants.violation import ViolationError

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
    PreVotesAreGranted,
    DamagedTakesNoPart,
    LegalMoves,
    EpochBeginsWithCandidate,
    StableLeadership,
    ReachedLeaderStays,
    LivingLeaderIsFollowed,
    EarlyCampaignsHaveReason,
    DeadLeaderIsMissed,
    CampaignsOfLastResort,
    BriefLeaderHandsOver,
    OldEpochsAreFenced,
    LeaderWithoutMajorityResigns,
    SilentVotersAreTold,
    LeaderHasItsVotes,
    VotesAreOfTheDisk,
    ProofsAreReadBack,
    TransferLeavesNothing,
    TransferPausesAreShort,
    GoodbyesAreHeeded,
    # voters
    VotersAreOfTheLog,
    OneChangeInDoubt,
    VotersChangeByOne,
    OwnEpochBeforeVoters,
    LevelBeforeVoters,
    NewVotersAreAsked,
    NewVoterHasCaughtUp,
    RemovedLeaderResigns,
    ChangeIsCommittedWhenTold,
    VotersCanBeDialed,
    OperatorsAreAnswered,
    TwinsAreTold,
    # logs
    LogMatching,
    LeaderCompleteness,
    CommittedIsNeverCut,
    CommittedStaysKnown,
    CutsAreTold,
    ForgottenIsTold,
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
    SnapshotsAreMadeAgain,
    FailedSnapshotsAreTold,
    PartsAreRemoved,
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
    OfflineReadersSeeTheNewest,
    MonotonicHighWatermark,
    MajorityHoldsHighWatermark,
    # the application
    DeliveredOnceInOrder,
    PlainListenerMissesOnlyTheCleaned,
    DeliveredIsCommitted,
    CommittedAlike,
    LeaderIsToldInTime,
    LateListenersHearWhoLeads,
    LingerIsBounded,
    RoomIsUsed,
    AcknowledgedIsCommitted,
    RejectedStaysOut,
    NoPhantoms,
    NoDuplicates,
    ProducersKeepOrder,
    ProducersAreToldTheTruth,
    EveryProposalIsDecided,
    ClientsAreToldTheTruth,
    Linearizable,
    # all goes on
    NodesStayUp,
    NobodyIsBlamed,
    NobodyRepeatsItself,
    NobodyWakesForNothing,
    NoLastingProspective,
    NobodyWaitsForATrickle,
    StrangersAreAskedSeldom,
    QuestionsArePaced,
    QuorumOutlastsForgers,
    CalmQuorumCommits,
    Healing,
)

__all__ = ["ALL", "Invariant", "ViolationError"]

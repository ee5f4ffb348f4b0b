"""Opens a node: from a directory and a configuration to everything that the host is built of.

Invariant: when `open_node` returns, the directory is locked and belongs to this node, the log is recovered, and
everything that the core relies on is durable. No message has been sent yet. Any problem is raised here, with the file
and the repair, and leaves nothing open. The steps:

1. Check the configuration.
2. Lock the directory, check whose it is and whether it was emptied (ADR 022). Once `DirectoryProof.note_partition` has
   run, before the first message, any later emptying will be detected.
3. Read the election.
4. Recover the log.
5. Note damage below the recovery point in the file ``quarantine``. The node then runs without the damaged part, and
   takes no part in elections until it has fetched it again.
6. Read the newest snapshot through; set a damaged one aside if the log does not need it.
7. If a snapshot holds more than an intact log, let it replace the log: an install was cut short, or records that the
   snapshot covers were not synced yet. The same if nothing of a damaged log is left behind the oldest snapshot.
8. Bring the snapshots into order.

Voter records come from the newest snapshot, then from the log after its end. The last LeaderChange tells by which
voters the log was led, also in a log without a voter set. The core is built later by `Opened.raft`, when the node
starts, since recovery may take longer than an election timeout.

Source: Kafka's ``KafkaRaftManager``, ``QuorumState.initialize`` and ``KRaftControlRecordStateMachine``; KIP-595,
KIP-853.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from random import Random

from pykraft.config import NEVER_LEADS_KEY, ONLY_VOTER, VOTERS_KEY, NodeConfig
from pykraft.core.log_view import LogView
from pykraft.core.proof import PROVEN
from pykraft.core.quarantine import Quarantine
from pykraft.core.raft import Raft
from pykraft.core.replica import LocalReplica
from pykraft.core.status import Status
from pykraft.core.voter_history import VoterHistory
from pykraft.errors import ConfigError, CorruptionError
from pykraft.host.snapshots.files import SnapshotFiles, real_snapshots
from pykraft.host.snapshots.startup_check import set_damaged_aside
from pykraft.log.directory import LogDirectory
from pykraft.log.fs import Fs
from pykraft.log.lane import OrderedLane
from pykraft.log.log import Log
from pykraft.log.log_scan import GroupBatches
from pykraft.log.recovery import Recovery
from pykraft.log.small_files.proof_file import ProofFile, look_up_proof
from pykraft.log.small_files.quarantine_file import QuarantineFile
from pykraft.log.small_files.quorum_state import ElectionStore
from pykraft.protocol.batch import HEADER_SIZE_BYTES
from pykraft.protocol.records import control_records
from pykraft.snapshot.writer import membership_in_snapshot
from pykraft.types import (
    EPOCH_MAX,
    EPOCH_ZERO,
    ControlRecord,
    Election,
    Epoch,
    Instant,
    KRaftVoters,
    LeaderChange,
    MembershipRecord,
    NodeId,
    Offset,
    OffsetAndEpoch,
    ReplicaKey,
    Uuid,
    VoterSet,
)


def control_records_of(log: Log, control_offsets: Iterable[Offset]) -> Iterator[tuple[Offset, ControlRecord]]:
    """The records in the control batches that begin at these offsets (ascending).

    Errors: StorageError; CorruptionError for damaged bytes; ProtocolError for a control batch that is not Raft's.
    """
    for offset in control_offsets:
        yield from control_records(log.read(offset, HEADER_SIZE_BYTES))


@dataclass(slots=True)
class VoterRecords:
    """What the files of a node say about voters."""

    membership: list[tuple[Offset, MembershipRecord]] = field(default_factory=list)
    """By ascending offset; a snapshot's records have its last offset, -1 for the bootstrap checkpoint."""
    led: LeaderChange | None = None
    """The last LeaderChange of the log; None without one."""

    def led_by_others(self, static: VoterSet) -> LeaderChange | None:
        """The last LeaderChange, if it has other voters than this static set, which no voter set of the log overrules.

        None also without a static set, or without a LeaderChange.
        """
        is_overruled = any(isinstance(record, KRaftVoters) for _, record in self.membership)
        is_same = self.led is None or set(self.led.voters) == set(static.ids)
        return None if is_overruled or is_same or not len(static) else self.led


def voter_records_at_start(fs: Fs, log: Log, control_offsets: Iterable[Offset], *, end_offset: Offset) -> VoterRecords:
    """Read them; each control batch is read once.

    ``control_offsets`` are those that recovery found; those that a snapshot has replaced since are skipped. For the
    core the log ends at ``end_offset``, perhaps at a snapshot's end that the files of a damaged log do not reach.

    Errors: StorageError; CorruptionError; ProtocolError for a control batch that is not Raft's.
    """
    found = VoterRecords()
    snapshot_end, records = membership_in_snapshot(fs, log.path, end_offset)
    # A bootstrap checkpoint without voters belongs to a node that joins others: their log says which level is in force.
    if snapshot_end or any(isinstance(record, KRaftVoters) for record in records):
        found.membership += ((Offset(snapshot_end - 1), record) for record in records)
    held = [offset for offset in control_offsets if log.start_offset <= offset < log.end_offset]
    for offset, record in control_records_of(log, held):
        if isinstance(record, LeaderChange):
            found.led = record
        elif isinstance(record, MembershipRecord) and offset >= snapshot_end:
            found.membership.append((offset, record))
    return found


class DirectoryProof:
    """The proof of one directory, from its lock on; a node without an id needs none."""

    def __init__(self, fs: Fs, config: NodeConfig) -> None:
        self._fs = fs
        self._config = config
        self.file = ProofFile(fs, config.log_dir)
        self.proof = PROVEN

    def on_owned(self, *, is_formatted: bool) -> None:
        """The directory is locked and nothing is written in it yet. Errors: StorageError."""
        self.proof = look_up_proof(
            self._fs,
            self.file,
            self._config.partition_directory,
            is_formatted=is_formatted,
            has_given_id=self._config.directory_id is not None,
        )

    def note_partition(
        self, elections: ElectionStore, *, is_new: bool, is_log_empty: bool, voters: tuple[NodeId, ...], level: int
    ) -> None:
        """Note durably that the partition exists, before any message that an emptied directory would not remember.

        Until the note exists, a formatted directory proves itself.

        Errors: StorageError.
        """
        if self._config.node_id is None or not self.proof.is_complete or self.file.exists():
            return
        # An election that is missing beside a log is for the core to decide; the next start notes it.
        if is_new and not is_log_empty:
            return
        if is_new:
            # The note promises that there is an election, so write that first.
            elections.write(Election(), voters=voters, kraft_version=level)
        self.file.write(PROVEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The contents of a node's directory, open and recovered."""

    config: NodeConfig
    node_id: NodeId | None
    directory: LogDirectory
    log: Log
    snapshot_files: SnapshotFiles
    view: LogView
    elections: ElectionStore
    lane: OrderedLane
    election: Election | None
    voter_history: VoterHistory
    """Voter sets from configuration, snapshot and log."""
    proving: DirectoryProof
    """Whether this directory belongs to the voter whose id the node has."""
    groups_from: Offset | None
    """Where the state of consumer groups begins in the log; None without any."""
    notes: tuple[str, ...]
    """Sentences for the operator about what recovery found."""
    alarms: tuple[str, ...]
    """Sentences that call for action."""

    @property
    def key(self) -> ReplicaKey | None:
        """Id and directory id; None without an id."""
        return None if self.node_id is None else ReplicaKey(self.node_id, self.directory.directory_id)

    @property
    def status(self) -> Status:
        """What recovery found: the node's status until the core takes its first step."""
        view, voter_history = self.view, self.voter_history
        return Status(
            epoch=max(view.last_epoch, self.election.epoch if self.election else EPOCH_ZERO),
            log_start_offset=view.start_offset,
            log_end_offset=view.end_offset,
            committed_end_offset=view.committed_end_offset,
            voters=voter_history.voters,
            kraft_version=voter_history.kraft_version,
            quarantine=view.quarantine,
            is_proven=self.node_id is None or self.proving.proof.is_complete,
        )

    def raft(self, rng: Random, now: Instant, core: type[Raft] = Raft) -> Raft:
        """Build the core of this node; its timers start at ``now``. Errors: UsageError."""
        config = self.config
        return core(
            config=config.raft,
            local=LocalReplica(
                id=self.node_id,
                directory_id=self.directory.directory_id,
                listeners=config.advertised_listeners,
                default_listener=config.default_listener,
                proof=self.proving.proof,
            ),
            voter_history=self.voter_history,
            bootstrap=config.bootstrap_servers,
            election=self.election,
            log=self.view,
            rng=rng,
            now=now,
        )

    def close(self) -> None:
        """Flush and close the files and release the lock; the ordered lane must be idle and no read in progress.

        Errors: StorageError.
        """
        with ExitStack() as closing:
            closing.callback(self.directory.release)
            closing.callback(self.elections.close)
            # After a failed write nothing more is written: leave the files as they are.
            if self.lane.failure is None:
                self.log.close()


def open_node(fs: Fs, config: NodeConfig, rng: Random) -> Opened:
    """Open or create the directory of a node.

    Errors: ConfigError; ForeignDirectoryError for the directory of another node or cluster; CorruptionError for a
    damaged meta.properties, quorum-state or snapshot; StorageError, also when another process holds the lock.
    """
    _check(config)  # step 1
    proving = DirectoryProof(fs, config)  # step 2
    with ExitStack() as undo:
        directory = LogDirectory.open(
            fs,
            config.log_dir,
            node_id=config.node_id,
            cluster_id=config.cluster_id,
            directory_id=config.directory_id,
            random_uuid=lambda: Uuid(rng.randbytes(16)),
            on_owned=proving.on_owned,
        )
        undo.callback(directory.release)
        elections = ElectionStore(fs, config.partition_directory)  # step 3
        undo.callback(elections.close)
        stored = elections.read()
        election = stored.election if stored else None
        epoch_max = election.epoch if election else EPOCH_MAX
        log, recovery = Log.open(  # step 4
            fs, config.partition_directory, config=config.log, topic_id=config.topic_id, epoch_max=epoch_max
        )
        undo.callback(log.close)
        file = QuarantineFile(fs, config.partition_directory)
        notes = list(recovery.notes)
        epoch = max(log.last_epoch, election.epoch if election else log.last_epoch)
        quarantine = _quarantine(file, recovery, epoch, notes)  # step 5
        alarms = (*recovery.alarms, *_alarms(quarantine), *set_damaged_aside(fs, log))  # step 6
        view = _view(fs, log, quarantine, notes)  # step 7
        snapshot_files = SnapshotFiles.open(  # step 8
            fs,
            config.partition_directory,
            log_start_offset=log.start_offset,
            leader_epoch=election.epoch if election else None,
            settings=config.log,
        )
        records = voter_records_at_start(fs, log, recovery.control_offsets, end_offset=view.end_offset)
        voter_history = VoterHistory(config.voters, records.membership)
        _check_others(config, voter_history, directory.directory_id)
        proving.note_partition(
            elections,
            is_new=stored is None,
            is_log_empty=log.end_offset == 0,
            voters=voter_history.voters.ids,
            level=voter_history.kraft_version,
        )
        undo.pop_all()
    return Opened(
        config=config,
        node_id=config.node_id,
        directory=directory,
        log=log,
        snapshot_files=snapshot_files,
        view=view,
        elections=elections,
        lane=OrderedLane(log, elections, file, proving.file, can_vote=config.node_id is not None, directory=directory),
        election=election,
        voter_history=voter_history,
        proving=proving,
        groups_from=_groups_from(recovery.groups, view),
        notes=tuple(notes),
        alarms=(*alarms, *_other_voters(config.voters, records)),
    )


def _groups_from(groups: GroupBatches, view: LogView) -> Offset | None:
    """The newest whole image of the groups' state that is known to be committed, else the first batch of that state."""
    offset, image = groups.first_offset, groups.image
    if image is not None and image[1] <= view.committed_end_offset:
        offset = image[0]
    return None if offset is None or offset >= view.end_offset else max(offset, view.start_offset)


def _other_voters(static: VoterSet, records: VoterRecords) -> tuple[str, ...]:
    """The alarm for a static list that is not the one by which the log was led; nothing if they agree."""
    if (led := records.led_by_others(static)) is None:
        return ()
    here, there = (", ".join(map(str, ids)) for ids in (static.ids, led.voters))
    text = (
        f"{VOTERS_KEY} has the voters {here}, but the log was last led, by node {led.leader_id}, with the voters "
        f"{there}: unless all nodes are being given the new list, correct it: majorities of two lists may not meet, "
        "and committed records be lost"
    )
    return (text,)


def _check_others(config: NodeConfig, voter_history: VoterHistory, directory_id: Uuid) -> None:
    """A voter that never leads needs another one that does. Errors: ConfigError."""
    if not config.raft.never_leads or config.node_id is None:
        return
    if voter_history.voters.is_only_voter(ReplicaKey(config.node_id, directory_id)):
        raise ConfigError(NEVER_LEADS_KEY, "true", ONLY_VOTER)


def _view(fs: Fs, log: Log, quarantine: Quarantine | None, notes: list[str]) -> LogView:
    """The core's view of the log, after a newer snapshot has replaced it (step 7)."""
    snapshots = [each for each in real_snapshots(fs, log.path) if each.offset >= log.start_offset]
    start_offset = _start_offset(log, snapshots)
    is_cut = quarantine is None or quarantine.is_cut
    # A damaged log may have lost all that it had after that snapshot.
    is_lost = log.end_offset < start_offset
    if not is_lost:
        view = LogView(
            start_offset=start_offset,
            end_offset=log.end_offset,
            epochs=log.epochs,
            snapshots=snapshots,
            quarantine=quarantine,
            committed_end_offset=log.committed_end_offset,
        )
        # While a damaged log is not cut yet, keep its files: they may hold the last copy of a record.
        if not is_cut or not snapshots or not view.is_older_than(snapshots[-1]):
            return view
    newest = snapshots[-1]
    ends = (newest, OffsetAndEpoch(log.end_offset, log.last_epoch))
    found, end = (f"offset {each.offset} of epoch {each.epoch}" for each in ends)
    notes.append(f"the snapshot up to {found} is ahead of the log, which ended at {end}: the log begins anew there")
    if is_cut:
        log.begin_anew_at(newest.offset)
    # Else the core has it begin there, when it cuts the damage.
    return LogView(start_offset=newest.offset, end_offset=newest.offset, snapshots=[newest], quarantine=quarantine)


def _start_offset(log: Log, snapshots: Sequence[OffsetAndEpoch]) -> Offset:
    """Where the log starts: at 0, or at the end of the oldest snapshot; its first segment may begin before that.

    Between the two no leader could be asked for what follows: nobody knows the epoch there.
    """
    return snapshots[0].offset if snapshots and log.start_offset > 0 else log.start_offset


def _quarantine(file: QuarantineFile, recovery: Recovery, epoch: Epoch, notes: list[str]) -> Quarantine | None:
    """The quarantine of this node, noted durably; None for an intact log without such a note."""
    known = _read_quarantine(file, epoch, notes)
    if known is None and not recovery.corrupt:
        return None
    before = known or Quarantine(epoch=epoch, until_offset=None, damages=(), is_cut=True)
    damages = before.with_damages(*recovery.corrupt)
    quarantine = replace(before, is_cut=not recovery.corrupt)
    if damages != before.damages:
        # New damage was found at start: we do not know what was acknowledged, only that it was in this epoch or before.
        quarantine = replace(quarantine, epoch=epoch, until_offset=None, damages=damages)
    if quarantine != known:
        file.write(quarantine)
    return quarantine


def _alarms(quarantine: Quarantine | None) -> tuple[str, ...]:
    """One sentence for each damaged place; a single one when the places are unknown."""
    if quarantine is None:
        return ()
    places = [str(damage) for damage in quarantine.damages] or ["the position is no longer known"]
    return tuple(f"DAMAGED LOG, in quarantine until it is fetched again: {place}" for place in places)


def _read_quarantine(file: QuarantineFile, epoch: Epoch, notes: list[str]) -> Quarantine | None:
    """The note of an earlier run; an unreadable note still counts, without its details."""
    if not file.exists():
        return None
    try:
        return file.read()
    except CorruptionError as error:
        notes.append(str(error))
        return Quarantine(epoch=epoch, until_offset=None, damages=(), is_cut=True)


def _check(config: NodeConfig) -> None:
    if not len(config.voters) and not config.bootstrap_servers:
        raise ConfigError("controller.quorum.voters", "", "name at least one voter as id@host:port")
    # Nobody dials an observer without an id.
    is_dialed = config.node_id is not None
    if is_dialed and config.advertised_listeners.get(config.default_listener) is None:
        raise ConfigError(
            "controller.listener.names", config.default_listener, "the first one must be among the listeners"
        )

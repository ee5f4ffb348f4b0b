"""Rules of snapshots: when one is asked for, what it holds, and who reads it."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pykraft.core.effects import InstallSnapshot, MoveLogStart
from pykraft.host.snapshots.files import PAUSES_MAX
from pykraft.sim.facts.history import read_snapshot
from pykraft.sim.invariants.invariant import (
    CommittedBatch,
    Invariant,
    Job,
    NewSnapshotInvariant,
    OffsetAndEpoch,
    Report,
    SimulatedNode,
    Spoken,
    View,
)
from pykraft.snapshot.files import FileKind, parse_snapshot_file, part_path
from pykraft.types import Epoch, ReportKind

LATE_US: Final = 100_000


@dataclass(slots=True)
class _Given:
    """What an application got since its last snapshot; ``due`` once that is enough: up to which offset, since when."""

    size_bytes: int = 0
    end_offset: int = 0
    due: tuple[int, int] | None = None
    high_watermark: int = 0
    """The highest that the host has known: one that has resigned, or not heard its new leader, reports none."""

    def begin_anew(self) -> None:
        """Count from here on."""
        self.size_bytes, self.due = 0, None


class SaveIsAskedInTime(Invariant):
    """An application that got enough, and all that was committed by then, is asked for a snapshot at once.

    A log that grows beyond its configured size fills the disk, and a restart reads all of it.

    Source: KIP-630 §When to Snapshot (``metadata.log.max.record.bytes.between.snapshots``).
    """

    def _begin(self) -> None:
        self._given: defaultdict[int, _Given] = defaultdict(_Given)

    def started(self, node: SimulatedNode) -> None:
        self._given[int(node.node_id)] = _Given()

    def loaded(self, node: SimulatedNode, _snapshot_id: OffsetAndEpoch) -> None:
        self._given[int(node.node_id)].begin_anew()

    def reported(self, node: SimulatedNode, report: Report) -> None:
        if report.kind is ReportKind.SNAPSHOT_DUE:
            self._given[int(node.node_id)].begin_anew()

    def delivered(self, node: SimulatedNode, batches: Sequence[CommittedBatch]) -> None:
        given = self._given[int(node.node_id)]
        given.size_bytes += sum(len(batch.data) for batch in batches)
        given.end_offset = batches[-1].end_offset
        is_enough = given.size_bytes > node.config.log.snapshot_record_bytes_max
        if (
            is_enough
            and given.due is None
            and int(node.node_id) in self.facts.history.asked_node_ids
            and node.status is not None
        ):
            high_watermark = max(given.high_watermark, node.status.high_watermark or 0)
            given.due = (max(given.end_offset, high_watermark), self.facts.clock.now_us)

    def after_event(self, node: SimulatedNode, now: View) -> None:
        given = self._given[int(node.node_id)]
        given.high_watermark = max(given.high_watermark, now.high_watermark or 0)
        if given.due is None or node.process is None:
            return
        until_offset, since_us = given.due
        late_us = self.facts.clock.now_us - since_us
        if given.end_offset >= until_offset and late_us > LATE_US and not node.was_paused_since(since_us):
            most = node.config.log.snapshot_record_bytes_max
            seen = f"node {node.node_id} has given {given.size_bytes} bytes to its application, where {most} are enough"
            raise self.violated(f"{seen}, and has not asked it for its state")


class CleanedIsInSnapshot(Invariant):
    """A log is cleaned, or replaced, up to the end of a snapshot on the platter; and a leader's is never replaced.

    Cleaning lets the log begin where a snapshot ends; an installed snapshot replaces the whole log. The removed
    records are then in that snapshot and nowhere else on this node, so the snapshot must be on the platter when the
    job to remove them is submitted. A leader never installs one: it was elected with everything that is committed.

    Source: KIP-630 §When to Delete Snapshots; Kafka's ``KafkaRaftLog.deleteBeforeSnapshot`` and
    ``truncateToLatestSnapshot``.
    """

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        if not isinstance(job, InstallSnapshot | MoveLogStart):
            return
        durable = self.facts.platters.snapshots(node)
        if not any(each.offset == job.snapshot_id.offset for each in durable):
            seen = f"node {node.node_id} lets its log begin at {job.snapshot_id.offset}"
            raise self.violated(f"{seen}, its snapshots are {list(durable)}")
        if isinstance(job, InstallSnapshot) and node.status is not None and node.status.leads:
            raise self.violated(f"node {node.node_id} leads, and puts a snapshot into the place of its log")


METRIC: Final = "failed-snapshots-total"


class FailedSnapshotsAreTold(Invariant):
    """Each process that found no room for a snapshot has raised an alarm by the end of the world, and counted it.

    Its log grows until it fills the disk, and nobody would know why.

    Source: ours (ADR 134).
    """

    def _begin(self) -> None:
        self._told: set[int] = set()

    def started(self, node: SimulatedNode) -> None:
        self._told.discard(int(node.node_id))
        self.facts.claims.snapshotless_ids.discard(int(node.node_id))

    def reported(self, node: SimulatedNode, report: Report) -> None:
        if report.kind is ReportKind.SNAPSHOT_NOT_WRITTEN:
            self._told.add(int(node.node_id))

    def ended(self) -> None:
        for node_id in sorted(self.facts.claims.snapshotless_ids - self._told):
            raise self.violated(f"node {node_id} had no room for a snapshot, and raises no alarm")
        for node_id in sorted(self._told):
            node = self.facts.nodes[node_id]
            counted = node.host.metrics(node.clock.instant).get(METRIC) if node.host is not None else None
            if counted == 0:
                raise self.violated(f"node {node_id} says that snapshots failed, and its {METRIC} is 0")


LAG_US = 300_000
"""Time from the search for old snapshots to the job that removes one."""


@dataclass(slots=True, kw_only=True)
class _Download:
    """Consecutive requests of one node for slices of one snapshot."""

    began_us: int
    asked_us: int
    position: int


class SnapshotInUseStays(Invariant):
    """No node removes a snapshot that another one has been fetching from it without a break.

    Such a snapshot stays until nobody has asked for a slice of it for the time between two searches, or for a fetch
    timeout if that is longer.

    Source: ours; Kafka deletes a snapshot that is being fetched (``KafkaRaftLog.maybeClean``); the follower begins
    anew.
    """

    def _begin(self) -> None:
        self._downloads: dict[tuple[int, int, OffsetAndEpoch], _Download] = {}

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        asked, target_id = spoken.sliced, spoken.target_id
        if asked is None or target_id is None:
            return
        now_us, key = self.facts.clock.now_us, (int(node.node_id), target_id, asked.snapshot_id)
        known = self._downloads.get(key)
        break_us = _patience_us(node) // 2
        if known is None or asked.position <= known.position or now_us - known.asked_us > break_us:
            self._downloads[key] = _Download(began_us=now_us, asked_us=now_us, position=asked.position)
        else:
            known.asked_us, known.position = now_us, asked.position

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        if not isinstance(job, MoveLogStart):
            return
        now_us, patience_us = self.facts.clock.now_us, _patience_us(node)
        for (asker_id, target_id, snapshot_id), known in self._downloads.items():
            if target_id != int(node.node_id) or snapshot_id.offset >= job.snapshot_id.offset:
                continue
            is_fetched = now_us - known.asked_us <= patience_us // 2
            lasts_us = now_us - known.began_us
            is_undisturbed = not node.was_paused_since(known.began_us) and (
                node.disk.io_errors.stalled_until_us < known.began_us
            )
            if is_fetched and is_undisturbed and lasts_us > patience_us + LAG_US:
                seen = f"node {node.node_id} lets go of the snapshot {snapshot_id}"
                raise self.violated(f"{seen}, which node {asker_id} has been fetching for {lasts_us} us")


def _patience_us(node: SimulatedNode) -> int:
    """How long a node keeps a snapshot that nobody asks for any more."""
    return max(node.config.log.clean_interval_ms, node.config.raft.fetch_timeout_ms) * 1_000


class LeaderNeverLoadsSnapshot(Invariant):
    """A listener that was told that its node leads gets no snapshot as long as the node leads.

    Source: Kafka ``RaftEventSimulationTest.LeaderNeverLoadSnapshot``.
    """

    def _begin(self) -> None:
        self._leads: dict[int, int] = {}

    def started(self, node: SimulatedNode) -> None:
        self._leads.pop(int(node.node_id), None)

    def leader_announced(self, node: SimulatedNode, epoch: int, leader_id: int | None) -> None:
        self._leads.pop(int(node.node_id), None)
        if leader_id == node.node_id:
            self._leads[int(node.node_id)] = epoch

    def loaded(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch) -> None:
        epoch, status = self._leads.get(int(node.node_id)), node.status
        if epoch is not None and status is not None and status.leads and status.epoch == epoch:
            raise self.violated(f"node {node.node_id} leads epoch {epoch}, and is given the snapshot {snapshot_id}")


class LogStartIsSnapshot(Invariant):
    """A log that does not start at 0 starts where the oldest snapshot ends; after a start perhaps a little before.

    Segments are removed as a whole, so a starting node finds records that it had cleaned away.

    Source: Kafka ``RaftEventSimulationTest.SnapshotAtLogStart``; KIP-630 §When to Delete Snapshots.
    """

    def _begin(self) -> None:
        self._found: dict[int, int] = {}

    def started(self, node: SimulatedNode) -> None:
        assert node.status is not None
        start_offset = self._found[int(node.node_id)] = node.status.log_start_offset
        if start_offset and not any(each.offset >= start_offset for each in self.facts.platters.snapshots(node)):
            raise self.violated(f"the log of node {node.node_id} starts at {start_offset}, without a snapshot")

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        start_offset, snapshots = now.log_start_offset, now.snapshots
        if not start_offset or (start_offset, snapshots) == (was.log_start_offset, was.snapshots):
            return
        oldest = snapshots[0].offset if snapshots else 0
        if oldest < start_offset or (oldest > start_offset and start_offset != self._found.get(int(node.node_id))):
            seen = f"the log of node {node.node_id} starts at {start_offset}"
            raise self.violated(f"{seen}, its oldest snapshot ends at {oldest or 'none'}")


ATTEMPTS: Final = 4
"""An application may give one up, or write it carelessly."""
BETWEEN_MAX: Final = 2
"""An application takes its next snapshot after so many times the scenario's number of records, at most."""
WRITES_WITHIN_US: Final = 1_000_000
"""It takes no other snapshot while it writes one."""
US_PER_MS: Final = 1_000


@dataclass(slots=True)
class _Failing:
    """A node that has failed to write snapshots since it had ``snapshots``."""

    snapshots: tuple[OffsetAndEpoch, ...]
    quiet_us: int = 0
    """Nothing has to be tried before this time."""
    from_offset: int | None = None
    """How far its application was when nothing stood in the way any more; None while something does."""
    from_us: int = 0
    """When that was."""
    skipped: int = 0
    """Records since then that came at once: an application takes one snapshot for each delivery at most."""


class SnapshotsAreMadeAgain(Invariant):
    """An application that takes snapshots on its own has one again after some attempts with room, and without pause.

    Otherwise its log grows until it fills the disk, and a restart reads all of it.

    Source: ours (ADR 134).
    """

    def _begin(self) -> None:
        self._failing: dict[int, _Failing] = {}
        self._ends: dict[int, int] = {}
        self._failures: Counter[int] = Counter()
        """By process, also those before its newest snapshot: that one may have been fetched, which ends no pause."""

    def started(self, node: SimulatedNode) -> None:
        self._failing.pop(int(node.node_id), None)
        self._ends[int(node.node_id)] = self._failures[int(node.node_id)] = 0

    def delivered(self, node: SimulatedNode, batches: Sequence[CommittedBatch]) -> None:
        node_id, end_offset = int(node.node_id), batches[-1].end_offset
        if failing := self._failing.get(node_id):
            count = end_offset - self._ends.get(node_id, 0)
            failing.skipped += max(0, count - BETWEEN_MAX * self.facts.records_between)
        self._ends[node_id] = end_offset

    def loaded(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch) -> None:
        self._ends[int(node.node_id)] = snapshot_id.offset
        if failing := self._failing.get(int(node.node_id)):
            failing.from_offset = None

    def reported(self, node: SimulatedNode, report: Report) -> None:
        node_id = int(node.node_id)
        if report.kind is not ReportKind.SNAPSHOT_NOT_WRITTEN or node_id in self.facts.history.asked_node_ids:
            return
        known = node.host.raft.log.snapshots if node.host is not None and node.host.raft is not None else ()
        failing = self._failing.setdefault(node_id, _Failing(tuple(known)))
        self._failures[node_id] += 1
        pauses = min(2 ** (self._failures[node_id] - 1), PAUSES_MAX)
        pause_us = (pauses + 1) * node.config.raft.fetch_timeout_ms * US_PER_MS
        failing.quiet_us, failing.from_offset = self.facts.clock.now_us + pause_us, None

    def after_event(self, node: SimulatedNode, now: View) -> None:
        node_id = int(node.node_id)
        failing = self._failing.get(node_id)
        if failing is None:
            return
        if now.snapshots != failing.snapshots:
            del self._failing[node_id]
            return
        io_errors, now_us = node.disk.io_errors, self.facts.clock.now_us
        stands = io_errors.is_planned or io_errors.stalled_until_us > now_us or node.is_damaged
        if now_us < failing.quiet_us or stands or node.was_paused_since(failing.quiet_us):
            failing.from_offset = None
        elif failing.from_offset is None:
            failing.from_offset, failing.from_us, failing.skipped = self._ends[node_id], now_us, 0
        elif now_us - failing.from_us > WRITES_WITHIN_US and (
            self._ends[node_id] - failing.from_offset - failing.skipped
            > ATTEMPTS * BETWEEN_MAX * self.facts.records_between
        ):
            seen = f"node {node_id} failed to write a snapshot, and has had room from offset {failing.from_offset} on"
            raise self.violated(f"{seen}; it is at {self._ends[node_id]}, and has written none")


class NextSliceFollows(Invariant):
    """A FetchSnapshot asks its leader for the byte after those that its node has of this leader's snapshot.

    The partial snapshot is on the disk, or at least in the page cache, and the next request asks for the byte after
    its end. A position from before a crash, or from another download, would leave a gap in the file.

    Source: KIP-630 §FetchSnapshot (Position is the size of what was fetched); Kafka's
    ``RawSnapshotWriter.sizeInBytes``.
    """

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        asked, status = spoken.sliced, node.status
        if asked is None or status is None or (spoken.epoch, spoken.target_id) != (status.epoch, status.leader_id):
            return
        path = part_path(node.config.partition_directory, asked.snapshot_id, leader_epoch=Epoch(spoken.epoch))
        part = node.disk.content(path)
        size_bytes = len(part) if part is not None else None
        if size_bytes != asked.position:
            seen = f"node {node.node_id} asks for byte {asked.position} of the snapshot {asked.snapshot_id}"
            raise self.violated(f"{seen}, and has {'none' if size_bytes is None else size_bytes} of them")


PARTS_MAX: Final = 2
"""One that is written, and one that is fetched."""


class PartsAreRemoved(Invariant):
    """When a node has a new snapshot, and at the end, it holds no more parts than it can be working on.

    A snapshot that failed, or was given up, would otherwise hold its room until the next start. A power loss may bring
    back what was removed: the disk of a node without a process is not looked at, since a start cleans it.

    Source: ours (ADR 134).
    """

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        if now.snapshots != was.snapshots:
            self._check(node)

    def ended(self) -> None:
        for node in self.facts.nodes.values():
            self._check(node)

    def _check(self, node: SimulatedNode) -> None:
        if node.process is None:
            return
        directory = node.disk.directory(node.config.partition_directory)
        files = [parse_snapshot_file(name) for name in directory.cached] if directory is not None else []
        parts = sum(file is not None and file.kind is FileKind.PART for file in files)
        if parts > PARTS_MAX and not node.disk.is_rotten:
            raise self.violated(f"node {node.node_id} holds {parts} parts of snapshots")


class SnapshotsAlike(NewSnapshotInvariant):
    """All snapshots of one id have the same bytes as the first one that was seen.

    Applications of a world write the same records in the same order, and all batches have the timestamp of the last
    record that the snapshot covers. So a difference is a bug: a wrong state, the time of day as timestamp, or wrong
    bytes.

    Source: ours; KIP-630 promises the same records and not the same bytes.
    """

    def _begin(self) -> None:
        self._known: dict[OffsetAndEpoch, bytes] = {}

    def judge(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch, content: bytes | None) -> None:
        """Compare the snapshot with the first one of its id."""
        if content is not None and self._known.setdefault(snapshot_id, content) != content:
            seen = f"node {node.node_id} has another snapshot up to {snapshot_id.offset}"
            raise self.violated(f"{seen} of epoch {snapshot_id.epoch} than was seen before")


class SnapshotIsCommitted(NewSnapshotInvariant):
    """The batches in a snapshot are the committed ones before its end, and the last one has the snapshot's epoch.

    Its records name every batch that led to it. So the oracle notices a snapshot that was taken too early, too late
    or of another history, or that has a wrong id.

    Source: KIP-630 §Design (a snapshot holds committed records only, and its id is the end offset and epoch of the
    last of them); Kafka ``RaftEventSimulationTest`` (ConsistentCommittedData).
    """

    def _begin(self) -> None:
        self._sound: set[tuple[OffsetAndEpoch, bytes]] = set()

    def judge(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch, content: bytes | None) -> None:
        """Compare its batches with the committed ones."""
        found = None if content is None else read_snapshot(content)
        if content is None or found is None or (snapshot_id, content) in self._sound:
            return
        batches = found.state.entries
        committed = self.facts.committed.entries[: len(batches)]
        seen = f"node {node.node_id} has a snapshot up to {snapshot_id.offset} of epoch {snapshot_id.epoch}"
        last = batches[-1] if batches else None
        if last is None or (last.end_offset, last.epoch) != (snapshot_id.offset, snapshot_id.epoch):
            raise self.violated(f"{seen}, its last batch is {last}")
        if batches != committed:
            other = next((each for each in zip(batches, committed, strict=False) if each[0] != each[1]), "less")
            raise self.violated(f"{seen}; held and committed is {other}")
        self._sound.add((snapshot_id, content))


class SnapshotIsDurable(NewSnapshotInvariant):
    """The platter holds each snapshot that a node knows, whole; and after a start the newest one that the node knew.

    The log before it may be removed at any time, and other replicas are told to fetch it. So it must be on the
    platter under its name, from header to footer, before anybody learns of it, and must still be there after a
    restart.

    Source: KIP-630 §Snapshot Format; Kafka's ``FileRawSnapshotWriter.freeze``; ALICE (OSDI 2014): rename without
    fsync.
    """

    def _begin(self) -> None:
        self._newest: dict[int, OffsetAndEpoch] = {}

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        super().changed(node, was, now)
        if now.snapshots and now.snapshots != was.snapshots:
            self._newest[int(node.node_id)] = now.snapshots[-1]

    def wiped(self, node: SimulatedNode) -> None:
        self._newest.pop(int(node.node_id), None)

    def started(self, node: SimulatedNode) -> None:
        known, found = self._newest.get(int(node.node_id)), self.facts.platters.snapshots(node)
        if known is None or self.facts.platters.is_set_aside(node, known):
            return
        if not (found and found[-1].is_at_least(known)):
            raise self.violated(f"node {node.node_id} had the snapshot {known}, and begins with {list(found)}")

    def judge(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch, content: bytes | None) -> None:
        """Check that all of it is on the platter."""
        found = None if content is None else read_snapshot(content)
        if found is None or not found.is_whole or found.epoch != snapshot_id.epoch:
            on_platter = "nothing" if content is None else f"{len(content)} bytes of something else"
            raise self.violated(
                f"node {node.node_id} counts on the snapshot {snapshot_id}, on its disk is {on_platter}"
            )


class SnapshotNamesItsVoters(NewSnapshotInvariant):
    """The voters in a frozen snapshot are those of the newest committed record before its end.

    A voter record at its end or beyond does not count, because it may still be truncated. Older voters would be
    wrong, because a replica that installs the snapshot has no other source for them.

    Source: KIP-853 §Snapshots; Kafka ``KRaftControlRecordStateMachine.voterSetAtOffset``.
    """

    def judge(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch, content: bytes | None) -> None:
        """Compare its voters with the committed ones."""
        found = None if content is None else read_snapshot(content)
        if found is None:
            return
        before = [each for each in self.facts.members.electorate.records if each.offset < snapshot_id.offset]
        newest = next((each for each in reversed(before) if self.facts.members.is_committed(each.entry)), None)
        if newest is not None and found.voters != newest.voters:
            named = None if found.voters is None else [*found.voters.ids]
            seen = f"node {node.node_id} has a snapshot up to {snapshot_id.offset} that names the voters {named}"
            raise self.violated(f"{seen}; at {newest.offset} they are {[*newest.voters.ids]}, and that is committed")

"""Rules of the log: what is appended, replicated, committed and cut."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from pykraft.core.effects import InstallSnapshot, TruncateTo
from pykraft.core.quorum import majority_of
from pykraft.core.state import Leader, Resigned
from pykraft.log.lane import AppendBytes
from pykraft.log.small_files.recovery_point import FILE_NAME
from pykraft.log.small_files.slots import parse_slots
from pykraft.protocol.records import decode_control
from pykraft.sim.invariants.invariant import CommittedBatch, Invariant, Job, Report, SimulatedNode, Spoken, View
from pykraft.sim.machine.ledger import Entry
from pykraft.sim.machine.node import Process
from pykraft.types import LeaderChange, ReplicaKey, ReportKind


class AppendedEpochIsKnown(Invariant):
    """The epoch of an appended batch is at most the node's own, and equal to it for a leader.

    A batch of a higher epoch comes from a node that lost its leadership between the request and the answer, and has
    records of the new leader in its log: the answer still names the old epoch.

    Source: KAFKA-18723 (batches of a higher partition leader epoch were appended); Raft paper §5.3.
    """

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        status = node.status
        if not isinstance(job, AppendBytes) or status is None:
            return
        for header, _ in job.batches:
            if header.epoch > status.epoch or (status.leads and header.epoch != status.epoch):
                seen = f"node {node.node_id}, {status.role} in epoch {status.epoch}, appends"
                raise self.violated(f"{seen} at offset {header.base_offset} a batch of epoch {header.epoch}")


OPERATIONS_LOOKED_AT = 2_000
"""The newest calls of clients; a leader appends only what was proposed recently."""


class BatchesFitAnswers(Invariant):
    """No leader appends a batch of several proposals that is larger than what batches are filled up to.

    A larger one would take longer to arrive than a follower expects. Only a single proposal may be larger, because
    its records form one batch whatever their size.

    Source: ours (ADR 036); Kafka fills batches up to its largest batch (``BatchAccumulator``).
    """

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        if not isinstance(job, AppendBytes) or node.status is None or not node.status.leads:
            return
        most = node.config.raft.fill_size_bytes_max
        for header, data in job.batches:
            if len(data) <= most or header.is_control:
                continue
            newest = self.facts.history.operations[-OPERATIONS_LOOKED_AT:]
            inside = [
                operation
                for operation in newest
                if operation.base_offset is not None
                and operation.epoch == header.epoch
                # A leader that died before it wrote down its election may be elected in the same epoch again, without
                # what it had accepted. A producer's batch is never filled up.
                and operation.is_alive()
                and header.base_offset <= operation.base_offset < header.end_offset
            ]
            if len(inside) > 1:
                what = f"a batch of {len(data)} bytes for {len(inside)} proposals"
                raise self.violated(f"leader {node.node_id} appends {what}, and batches are filled up to {most}")


class BriefLeaderHandsOver(Invariant):
    """A voter that never leads writes nothing but LeaderChange, does not stay, and names the best successor first.

    It cannot write what the quorum needs, so each moment of its leadership is lost. It has to lead until another
    voter has its whole log, and not for an event longer; and it names the most caught-up voter first, which can win
    at once.

    Source: ours (ADR 077).
    """

    def _begin(self) -> None:
        self._handing_over: set[int] = set()

    def reported(self, node: SimulatedNode, report: Report) -> None:
        if report.kind is ReportKind.HANDED_OVER:
            self._handing_over.add(int(node.node_id))

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        status = node.status
        if not isinstance(job, AppendBytes) or not node.config.raft.never_leads or status is None or not status.leads:
            return
        for header, data in job.batches:
            records = decode_control(data) if header.is_control else []
            if [type(record) for record in records] != [LeaderChange]:
                seen = f"node {node.node_id}, which never leads, appends {records or 'proposals'}"
                raise self.violated(f"{seen} at {header.base_offset} in epoch {status.epoch}")

    def after_event(self, node: SimulatedNode, now: View) -> None:
        raft = node.host.raft if node.host is not None else None
        if raft is None or not isinstance(raft.state, Leader) or not node.config.raft.never_leads:
            return
        voters = raft.state.progress.voters.values()
        others = {int(seen.key.id): seen.end_offset for seen in voters if seen.key.id != node.node_id}
        if raft.log.end_offset in others.values():
            raise self.violated(f"node {node.node_id}, which never leads, leads on in epoch {now.epoch}: {others}")

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        node_id, raft = int(node.node_id), node.host.raft if node.host is not None else None
        if node_id not in self._handing_over:
            return
        self._handing_over.discard(node_id)
        if raft is None or not was.leads or not isinstance(raft.state, Resigned):
            return
        first = self.facts.nodes[int(raft.state.successors[0].id)]
        if first.ledger.end_offset < node.ledger.end_offset:
            seen = f"node {node_id} of epoch {now.epoch} hands {node.ledger.end_offset} records over"
            raise self.violated(f"{seen} to node {first.node_id}, which has {first.ledger.end_offset}")


class CommittedAlike(Invariant):
    """The first delivery of an offset says what is committed there; all others must agree.

    Source: Raft paper §5.4.3 (State Machine Safety); Kafka ``RaftEventSimulationTest`` (ConsistentCommittedData).
    """

    def _begin(self) -> None:
        self._batches: dict[int, tuple[int, int, bytes]] = {}

    def delivered(self, node: SimulatedNode, batches: Sequence[CommittedBatch]) -> None:
        for batch in batches:
            found = (batch.end_offset, batch.epoch, bytes(batch.data))
            known = self._batches.setdefault(batch.base_offset, found)
            if known != found:
                seen = (
                    f"node {node.node_id} is given another batch of epoch {batch.epoch} at offset {batch.base_offset}"
                )
                raise self.violated(f"{seen} than was committed there in epoch {known[1]}")


class CommittedIsNeverCut(Invariant):
    """No truncation, and no snapshot that ends before it, removes a batch that some leader counted as committed.

    A follower truncates only what no majority holds. If it is told otherwise, it or its leader has a bug, and the
    truncation would lose acknowledged records. A snapshot replaces committed records only if it contains them.

    A disk may have changed the epochs of batches. A replica that knows of damage promises nothing about its log,
    and may have to fetch again what was written as it should be.

    The leader of an older epoch does not know what a newer one has committed, and who still follows it may be told
    to cut that: its copy did not count.

    Source: Raft paper §5.3–5.4; Kafka ``KafkaRaftLog.truncateToEndOffset`` (refuses below the high watermark).
    """

    def _begin(self) -> None:
        self._advances: list[tuple[int, int]] = []
        """End offset and epoch of each leader that was the first to count so much as committed, ascending."""

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        del node, was
        known = self._advances[-1][0] if self._advances else 0
        if now.has_led and now.high_watermark is not None and now.high_watermark > known:
            self._advances.append((now.high_watermark, now.epoch))

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        if not isinstance(job, TruncateTo | InstallSnapshot):
            return
        if node.is_damaged and node.disk.is_rotten:
            return
        end_offset = job.end_offset if isinstance(job, TruncateTo) else job.snapshot_id.offset
        committed = self.facts.committed
        for entry in reversed(self.facts.ledger(node).entries):
            if entry.end_offset <= end_offset:
                return
            if committed.at(entry.base_offset) == entry and self._epoch_of_commit(entry) <= _epoch_of(node):
                seen = f"node {node.node_id} cuts its log to {end_offset}, and with it"
                raise self.violated(f"{seen} the committed batch at {entry.base_offset} of epoch {entry.epoch}")

    def _epoch_of_commit(self, entry: Entry) -> int:
        at = bisect_left(self._advances, (entry.end_offset, 0))
        return self._advances[at][1] if at < len(self._advances) else 0


def _epoch_of(node: SimulatedNode) -> int:
    assert node.status is not None
    return node.status.epoch


class CommittedStaysKnown(Invariant):
    """After a start a node knows what its ``recovery-point`` called committed, as far as its log goes.

    A disk that lies may have lost the file, or what it speaks of.

    It remembers a lower bound, so that it can tell a leader that has lost records. Only a majority that lost its
    records would show that it does not.

    Source: ours (ADR 128).
    """

    def _begin(self) -> None:
        self._known: dict[int, int] = {}

    def starting(self, node: SimulatedNode) -> None:
        content = node.disk.content(node.config.partition_directory / FILE_NAME)
        slots = parse_slots(bytes(content)) if content is not None else ()
        _, _, committed = slots[-1].payload.partition(b" ") if slots else (b"", b"", b"")
        self._known[int(node.node_id)] = int(committed or b"0")

    def after_event(self, node: SimulatedNode, _now: View) -> None:
        known, status = self._known.pop(int(node.node_id), 0), node.status
        if not known or status is None or node.is_damaged or node.disk.is_rotten:
            return
        after = status.committed_end_offset
        if after < min(known, status.log_end_offset):
            seen = f"node {node.node_id} knew that everything below {known} is committed"
            raise self.violated(f"{seen}, and after its start below {after}")


class CutsAreTold(Invariant):
    """Each truncation of a sound log is reported with both offsets before it is done.

    Most truncations are what Raft does with records that were never committed. After an operator's mistake they are
    the first sign of it, and the last: afterwards all logs are equal. A log that is known to be damaged is reported
    otherwise.

    Source: ours (ADR 128).
    """

    def _begin(self) -> None:
        self._told: dict[int, Report] = {}

    def reported(self, node: SimulatedNode, report: Report) -> None:
        self._told[int(node.node_id)] = report

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        if not isinstance(job, TruncateTo) or node.is_damaged:
            return
        told, end_offset = self._told.get(int(node.node_id)), self.facts.ledger(node).end_offset
        if told is None or (told.kind, told.values) != (ReportKind.TRUNCATION, (end_offset, job.end_offset)):
            seen = f"node {node.node_id} cuts its log from {end_offset} to {job.end_offset}"
            raise self.violated(f"{seen}; it last said: {told.text if told is not None else ''}")


class FetchIsDurableFirst(Invariant):
    """The log on the platter, or the snapshot that replaces it, ends at the offset and epoch in the Fetch.

    The platter must hold neither less nor more than the Fetch says: a truncation that it relies on has to be
    durable, too. A Fetch to a node that does not lead acknowledges nothing, and may be out of date by the time its
    connection is established.

    Source: KIP-595 §Fetch (the fetch offset is the acknowledgment); etcd ``raft/doc.go`` (write before you send).
    """

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        fetched, status = spoken.fetched, node.status
        if (
            fetched is None
            or status is None
            or node.is_damaged
            or self.facts.platters.has_news(node)
            or (spoken.epoch, spoken.target_id) != (status.epoch, status.leader_id)
        ):
            return
        end = self.facts.platters.end(node)
        if (end.offset, end.epoch) != (fetched.offset, fetched.epoch):
            seen = f"node {node.node_id} fetches at {fetched.offset} after epoch {fetched.epoch}"
            raise self.violated(f"{seen}, its disk holds a log up to {end.offset} of epoch {end.epoch}")


class StrangersAddNothing(Invariant):
    """No log appends a batch that a stranger sent.

    Batches below the log end, beyond a gap or of a later epoch than the leader's, and batches in an answer that
    names another leader of the epoch, are not from the log of the leader that the replica follows.

    Source: KIP-595 §Fetch; KAFKA-18723; ADR 028. Kafka appends the records of an answer that names another leader.
    """

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        if not isinstance(job, AppendBytes) or not self.facts.claims.batches:
            return
        for header, _ in job.batches:
            if (int(header.base_offset), header.crc) in self.facts.claims.batches:
                seen = f"node {node.node_id} appends the batch of a stranger at {header.base_offset}"
                raise self.violated(f"{seen} of epoch {header.epoch}")


class _Asked(NamedTuple):
    """A Fetch below what its sender had acknowledged, and how many answers the sender had when it sent it."""

    leader_id: int
    epoch: int
    process: Process
    answers: int
    seen: str


class ForgottenIsTold(Invariant):
    """A leader that answers a Fetch below what that voter has acknowledged in this epoch has raised an alarm.

    An older copy of that voter's directory was put back, and what it forgot may be committed because of it. Nobody
    else can know: the voter fetches the rest, and all logs are equal again.

    Source: ours (ADR 128).
    """

    def _begin(self) -> None:
        self._asked: dict[int, _Asked] = {}
        self._told: set[tuple[int, int, int]] = set()

    def reported(self, node: SimulatedNode, report: Report) -> None:
        state = _led_by(node)
        if state is not None and report.kind is ReportKind.ACKNOWLEDGED_AGAIN:
            self._told.add((int(node.node_id), int(state.epoch), report.values[0]))

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        node_id = int(node.node_id)
        if spoken.fetched is None or node_id not in self.facts.claims.older_ids or node.process is None:
            return
        self._asked.pop(node_id, None)
        target = self.facts.nodes.get(spoken.target_id or 0)
        state = _led_by(target) if target is not None else None
        voter = state.progress.known(node.key) if state is not None else None
        if target is None or state is None or voter is None or state.epoch != spoken.epoch:
            return
        acknowledged = voter.acknowledged_end_offset if state.progress.is_voter(node.key) else 0
        if spoken.fetched.offset < acknowledged:
            target_id, process = int(target.node_id), node.process
            answers = process.wiretap.fetch_answers_in[target_id, spoken.epoch]
            seen = f"voter {node_id} asks for {spoken.fetched.offset}, and has acknowledged {acknowledged}"
            self._asked[node_id] = _Asked(target_id, spoken.epoch, process, answers, seen)

    def after_event(self, node: SimulatedNode, _now: View) -> None:
        node_id = int(node.node_id)
        asked = self._asked.get(node_id)
        if asked is None or asked.process is not node.process:
            return
        if asked.process.wiretap.fetch_answers_in[asked.leader_id, asked.epoch] == asked.answers:
            return
        del self._asked[node_id]
        state = _led_by(self.facts.nodes[asked.leader_id])
        is_led = state is not None and state.epoch == asked.epoch
        if is_led and (asked.leader_id, asked.epoch, node_id) not in self._told:
            raise self.violated(f"{asked.seen}; node {asked.leader_id}, the leader of epoch {asked.epoch}, is silent")


def _led_by(node: SimulatedNode) -> Leader | None:
    raft = node.host.raft if node.host is not None else None
    return raft.state if raft is not None and isinstance(raft.state, Leader) else None


class MonotonicHighWatermark(Invariant):
    """The high watermark of the leader with the highest epoch never decreases.

    Source: Raft paper §5.3–5.4; Kafka ``RaftEventSimulationTest.MonotonicHighWatermark``.
    """

    def _begin(self) -> None:
        self._highest = 0
        self._epoch = 0

    def changed(self, node: SimulatedNode, _was: View, now: View) -> None:
        if not now.leads or now.epoch < self._epoch or now.high_watermark is None:
            return
        self._epoch = now.epoch
        if now.high_watermark < self._highest:
            seen = f"leader {node.node_id} of epoch {now.epoch} is at {now.high_watermark}"
            raise self.violated(f"{seen}, but {self._highest} was reached before")
        self._highest = now.high_watermark


class LeaderCompleteness(Invariant):
    """The log of each new leader, or the snapshot before it, holds the last batch that is known to be committed.

    This includes records that an older leader finds out to be committed later: they were on a majority before the
    election, so the new leader has them.

    Source: Raft paper §5.4.3 (Leader Completeness); LeaderCompleteness of Vanlightly's specification of KRaft.
    """

    def _begin(self) -> None:
        self._newest: tuple[int, SimulatedNode] | None = None

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        if not now.leads:
            return
        is_new = not was.leads or was.epoch != now.epoch
        if is_new and (self._newest is None or now.epoch > self._newest[0]):
            self._newest = (now.epoch, node)
            self._check(now.epoch, node)
        elif self._newest is not None and now.epoch < self._newest[0] and now.high_watermark != was.high_watermark:
            epoch, newest = self._newest
            status = newest.status
            if status is not None and status.leads and status.epoch == epoch:
                self._check(epoch, newest)

    def _check(self, epoch: int, leader: SimulatedNode) -> None:
        committed = self.facts.committed.entries
        if not committed:
            return
        last = committed[-1]
        ledger = self.facts.ledger(leader)
        held = ledger.at(last.base_offset)
        # A log that begins at or after the batch's end has it in a snapshot.
        if held != last and ledger.begin.offset < last.end_offset:
            seen = f"leader {leader.node_id} of epoch {epoch} does not hold what is committed up to {last.end_offset}"
            raise self.violated(f"{seen} in epoch {last.epoch}: {held}")


class LogMatching(Invariant):
    """An offset and an epoch identify one batch, and always the same batch before it.

    The oracle remembers each batch, with its checksum and the batch before it, when it is first appended anywhere.
    A node that appends a batch of the same offset and epoch must have the same batch after the same one; by
    induction everything before is the same, too. A batch that only one node ever had may be replaced: a leader that
    lost power before its first record was durable, and before it told anybody, is a candidate of the same epoch
    again. Where a log begins at a snapshot, the batch before is the committed one.

    Source: Raft paper §5.3 (Log Matching); LogMatching of Vanlightly's specification of KRaft.
    """

    def _begin(self) -> None:
        self._known: dict[tuple[int, int], tuple[Entry, Entry | None]] = {}
        self._only: dict[tuple[int, int], int] = {}
        """The only node that ever appended this batch."""

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        if not isinstance(job, AppendBytes):
            return
        ledger = self.facts.ledger(node)
        before = ledger.entries[-1] if ledger.entries else self.facts.committed.at(ledger.begin.offset - 1)
        for header, _ in job.batches:
            entry = Entry.of(header)
            key = (entry.base_offset, entry.epoch)
            self._note(key, int(node.node_id), (entry, before))
            known, known_before = self._known[key]
            where = f"at offset {entry.base_offset} of epoch {entry.epoch}"
            if known != entry:
                raise self.violated(f"node {node.node_id} appends another batch than was seen before {where}")
            if known_before != before:
                raise self.violated(
                    f"node {node.node_id} appends the batch {where} to another log than was seen before"
                )
            before = entry

    def _note(self, key: tuple[int, int], node_id: int, found: tuple[Entry, Entry | None]) -> None:
        if key not in self._known or self._only.get(key) == node_id:
            self._known[key] = found
            self._only[key] = node_id
        else:
            self._only.pop(key, None)


class MajorityHoldsHighWatermark(Invariant):
    """A majority of the voters has the leader's last committed batch on disk when the high watermark reaches it.

    A copy counts if a power loss now could not remove it, on voters that run and on voters that do not. The voters
    are those of the leader's log at that time, committed or not: a leader that they do not include has no copy that
    counts. Some acknowledgments of a disk still count after the disk is gone. Without directory ids, a voter whose
    disk was wiped counts until it may return: its last Fetch may still be under way, and it does not vote
    meanwhile. With directory ids, the last Fetch of the old disk counts for what it says. The same holds for the
    last Fetch of a voter that has found damage since: it takes no part before it holds all of that again
    (DamagedReturnsWhole).

    Source: Raft paper §5.3 (committed entries); KIP-853; Kafka
    ``RaftEventSimulationTest.MajorityReachedHighWatermark``, made stricter: Kafka compares log ends in memory.
    KIP-630: a snapshot stands for the records before its end.
    """

    def _begin(self) -> None:
        self._checked = 0
        self._told: dict[ReplicaKey, tuple[int, int]] = {}
        """Epoch and offset of the last Fetch of each disk."""
        self._former: dict[int, tuple[int, int]] = {}
        """By node: the same for a disk that was wiped since."""

    def wiped(self, node: SimulatedNode) -> None:
        if node.key in self._told:
            self._former[int(node.node_id)] = self._told.pop(node.key)

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        if spoken.fetched is not None:
            self._told[node.key] = (spoken.epoch, spoken.fetched.offset)

    def changed(self, node: SimulatedNode, _was: View, now: View) -> None:
        high_watermark = now.high_watermark
        if not now.has_led or high_watermark is None or high_watermark <= self._checked:
            return
        self._checked = high_watermark
        last = self.facts.ledger(node).at(high_watermark - 1)
        voters = self.facts.members.voters_of(node)
        holding = [
            int(voter.node_id)
            for voter in self.facts.members.nodes_of(voters)
            if self._has_reached(self._former.get(int(voter.node_id)), now)
            or (voter.is_damaged and self._has_reached(self._told.get(voter.key), now))
            or (last is not None and self.facts.platters.holds(voter, last))
        ]
        holding += [
            int(key.id) for key in self.facts.members.replaced_in(voters) if self._has_reached(self._told.get(key), now)
        ]
        if last is None or len(holding) < majority_of(len(voters)):
            seen = f"leader {node.node_id} of epoch {now.epoch} calls {high_watermark} committed"
            raise self.violated(
                f"{seen}, of the voters {[*map(int, voters.ids)]} only {holding} have its last batch on disk"
            )

    @staticmethod
    def _has_reached(told: tuple[int, int] | None, leader: View) -> bool:
        epoch, offset = told or (0, 0)
        return epoch == leader.epoch and offset >= (leader.high_watermark or 0)


BATCHES_MAX = 2
"""A voter set is appended together with the proposals before it: one full batch, and one that lingers."""


class OneBatchAStep(Invariant):
    """No leader appends more than one batch of proposals in one step, and with a voter set no more than two.

    A step encodes everything it appends before the node does anything else. After a stall of its disk a leader may
    have a long backlog; encoding it at once would block the node for longer than an election takes.

    Source: ours (ADR 037).
    """

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        if not isinstance(job, AppendBytes) or node.status is None or not node.status.leads:
            return
        control = sum(header.is_control for header, _ in job.batches)
        count = len(job.batches) - control
        if count > (BATCHES_MAX if control else 1):
            raise self.violated(f"leader {node.node_id} appends {count} batches of proposals in one step")

"""Rules of what clients and producers are told, and of what their records become."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from pykraft.core.state import Leader
from pykraft.errors import ErrorCode
from pykraft.host.describe_cluster import CONTROLLERS
from pykraft.host.inbound import BROKERS
from pykraft.log.lane import AppendBytes
from pykraft.protocol.batch import scan
from pykraft.protocol.records import read_header
from pykraft.protocol.schema import Body
from pykraft.sim.facts import history
from pykraft.sim.invariants import invariant
from pykraft.sim.machine.node import Process
from pykraft.types import NodeId


class AcknowledgedIsCommitted(invariant.Invariant):
    """Every acknowledged value is committed at the acknowledged offset.

    Checked whenever a batch is delivered for the first time, and again when the run is over and every node has
    everything.

    Source: Raft paper §8; Durability of Vanlightly's specification of KRaft; Jepsen's checker for sets.
    """

    def _begin(self) -> None:
        self._acknowledged: dict[int, bytes] = {}
        self._committed: dict[int, bytes] = {}

    def decided(self, operation: invariant.Operation) -> None:
        if operation.answer is not history.OperationOutcome.COMMITTED:
            return
        assert operation.base_offset is not None
        for offset, value in enumerate(operation.values, start=operation.base_offset):
            self._acknowledged[offset] = value
            self._compare(offset, self._committed.get(offset, value))

    def committed(self, base_offset: int, values: Sequence[bytes]) -> None:
        for offset, value in enumerate(values, start=base_offset):
            self._committed[offset] = value
            self._compare(offset, value)

    def ended(self) -> None:
        for offset in self._acknowledged.keys() - self._committed.keys():
            raise self.violated(f"the value acknowledged at offset {offset} is not there")

    def _compare(self, offset: int, committed: bytes) -> None:
        acknowledged = self._acknowledged.get(offset, committed)
        if acknowledged != committed:
            seen = f"the value {_shown(acknowledged)} was acknowledged at offset {offset}"
            raise self.violated(f"{seen}, {_shown(committed)} is committed there")


def _shown(value: bytes) -> str:
    return value[:13].decode("ascii", "replace")


TIMEOUTS = 6
"""Something is committed within this many fetch timeouts: a leader is given up after three, and disks may be slow."""


class EveryProposalIsDecided(invariant.Invariant):
    """At the end no client waits for an outcome that its node knows, or longer than a leader lasts without commits.

    A leader without a majority resigns; then the outcome is unknown, which counts as an outcome, too. A follower
    fetches in log order, so a proposal waits for everything before it. When a disk is slower than the clients, that
    may take as long as the leader keeps committing.

    Source: ValuesEventuallyAcked of Vanlightly's specification of KRaft; `pykraft.host.producers` (exactly one
    outcome).
    """

    def _begin(self) -> None:
        self._open: dict[int, invariant.Operation] = {}
        self._rose_us: dict[int, int] = {}
        """By node: when its high watermark as a leader last rose."""

    def proposed(self, operation: invariant.Operation) -> None:
        self._open[operation.number] = operation

    def decided(self, operation: invariant.Operation) -> None:
        if self._open.pop(operation.number, None) is None:
            raise self.violated(f"operation {operation.number} of node {operation.node_id} is answered twice")

    def changed(self, node: invariant.SimulatedNode, was: invariant.View, now: invariant.View) -> None:
        if now.leads and now.high_watermark != was.high_watermark:
            self._rose_us[int(node.node_id)] = self.facts.clock.now_us

    def ended(self) -> None:
        for operation in self._open.values():
            reason = self._overdue(operation) if operation.is_alive() else None
            if reason is not None:
                asked, now = operation.invoked_us / 1_000, self.facts.clock.now_us / 1_000
                seen = f"operation {operation.number}, proposed at node {operation.node_id} at {asked:.3f} ms"
                raise self.violated(f"{seen}, has no answer at {now:.3f} ms: {reason}")

    def _overdue(self, operation: invariant.Operation) -> str | None:
        """Why this open operation should have an outcome, or None. The process that accepted it still runs."""
        scenario, status = self.facts.scenario, self.facts.nodes[operation.node_id].status
        assert status is not None
        if not status.leads or status.epoch != operation.epoch:
            # The step that ends a leadership gives all waiting clients their outcome.
            return f"the node does not lead epoch {operation.epoch} any more"
        since_us, seen = operation.invoked_us, "it has had no offset"
        if operation.base_offset is not None:
            if operation.end_offset <= (status.high_watermark or 0):
                # The step that raises the high watermark gives all clients below it their outcome.
                return f"the high watermark is {status.high_watermark}, beyond its end {operation.end_offset}"
            # While the high watermark rises, fewer records are left before this operation. The protocol sets no pace:
            # it depends on disks, links and clients, and nothing bounds the leader's log above the high watermark.
            since_us = max(since_us, self._rose_us.get(operation.node_id, 0))
            seen = "its leader has committed nothing"
        # A leader that commits nothing has no majority that fetches, and resigns.
        waits_us = invariant.transfer_us(scenario, self.facts.network.byte_us)
        limit_us = TIMEOUTS * scenario.quorum.fetch_timeout_ms * 1_000 + waits_us
        waited_us = self.facts.clock.now_us - since_us
        return f"{seen} for {waited_us / 1_000:.3f} ms" if waited_us > limit_us else None


class NoDuplicates(invariant.Invariant):
    """Each value has one offset.

    Clients of a world never propose a value twice, so a duplicate comes from a node.

    Source: ours; Jepsen's checker for sets (duplicates); KIP-98 for the story (a retried append).
    """

    def _begin(self) -> None:
        self._offsets: dict[bytes, int] = {}

    def committed(self, base_offset: int, values: Sequence[bytes]) -> None:
        for offset, value in enumerate(values, start=base_offset):
            known = self._offsets.setdefault(value, offset)
            if known != offset:
                shown = value[:13].decode("ascii", "replace")
                raise self.violated(f"the value {shown} is committed at offset {known}, and at {offset} again")


class Linearizable(invariant.Invariant):
    """The history of every register, and of all offsets that clients were told, is linearizable.

    Clients write registers, and read them through the log: a read is a record of its own, answered from the state
    of the listener at the node that accepted it. Each register must behave as if all operations took place one
    after the other, each between its call and its answer; so must the offsets that appends were told. An operation
    without a certain answer may have happened at any later time, or never.

    Source: Herlihy and Wing 1990; Wing and Gong 1993; Lowe 2017 (the checker is
    `pykraft.sim.facts.history`).
    """

    def ended(self) -> None:
        operations = self.facts.history.operations
        for key, calls in history.register_calls(operations).items():
            if history.check(calls, history.register) is history.SearchVerdict.NOT_LINEARIZABLE:
                raise self.violated(f"no order explains what clients wrote to register {key} and read from it")
        if history.check(history.offset_calls(operations), history.offsets) is history.SearchVerdict.NOT_LINEARIZABLE:
            raise self.violated("no order explains the offsets that clients were told")


SLACK_MS = 3
"""Host clocks tick in milliseconds, and a wake-up may be one late."""


class LingerIsBounded(invariant.Invariant):
    """An accepted proposal goes to the disk when its linger time is over, unless the disk is busy.

    The leader must set a timer for it, because nothing else may happen at the leader meanwhile.

    Source: KIP-595 (``quorum.append.linger.ms``); Kafka ``KafkaRaftClient.poll``, which must wake when the linger
    is over.
    """

    def _begin(self) -> None:
        self._lingering: defaultdict[int, dict[int, invariant.Operation]] = defaultdict(dict)
        self._idle_since_ms: dict[int, int] = {}
        """Since when the disk of a node has nothing to do, by the node's clock."""

    def started(self, node: invariant.SimulatedNode) -> None:
        self._lingering[int(node.node_id)].clear()

    def persisted(self, node: invariant.SimulatedNode) -> None:
        self._idle_since_ms[int(node.node_id)] = node.clock.instant.mono_ms

    def accepted(self, operation: invariant.Operation) -> None:
        assert operation.base_offset is not None
        if operation.is_prepared:
            return
        self._lingering[operation.node_id][operation.base_offset] = operation

    def submitted(self, node: invariant.SimulatedNode, job: invariant.Job) -> None:
        lingering = self._lingering[int(node.node_id)]
        idle_since_ms = self._idle_since_ms.pop(int(node.node_id), None)
        if not isinstance(job, AppendBytes) or not lingering:
            return
        linger_ms, now_ms = node.config.raft.append_linger_ms, node.clock.instant.mono_ms
        for header, _ in job.batches:
            for offset in [offset for offset in lingering if offset < header.end_offset]:
                operation = lingering.pop(offset)
                if operation.epoch != header.epoch or idle_since_ms is None:
                    continue
                lingered_ms = (self.facts.clock.now_us - operation.invoked_us) // 1_000
                # By the node's clock and by virtual time, because a node whose clock is skewed may be late by only one
                # of them.
                late_ms = min(
                    now_ms - max(operation.invoked_mono_ms + linger_ms, idle_since_ms), lingered_ms - linger_ms
                )
                if late_ms > SLACK_MS and not node.was_paused_since(operation.invoked_us):
                    seen = f"node {node.node_id} let operation {operation.number} linger for {linger_ms} ms"
                    raise self.violated(f"{seen} and {late_ms} more, and its disk had nothing to do")


class NoPhantoms(invariant.Invariant):
    """No value is delivered that no client proposed.

    Source: ours; Jepsen's checker for sets (unexpected elements).
    """

    def _begin(self) -> None:
        self._proposed: set[bytes] = set()

    def proposed(self, operation: invariant.Operation) -> None:
        self._proposed.update(operation.values)

    def committed(self, base_offset: int, values: Sequence[bytes]) -> None:
        for offset, value in enumerate(values, start=base_offset):
            if value not in self._proposed:
                raise self.violated(f"offset {offset} holds {value[:24]!r}, which nobody proposed")


NEVER: Final = (
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_RECORD,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.INVALID_REQUIRED_ACKS,
)
"""No answer to a correct batch, which its producer still waits for."""


class ProducersAreToldTheTruth(invariant.Invariant):
    """Producers get ids of their own, acknowledgments of committed batches, and errors only for a reason.

    A batch that follows the last acknowledged one is never out of order, and the newest epoch of a producer is
    never an old one. A producer may be unknown where nodes remember few, or where a snapshot has replaced the
    batches by which they would know it. `AcknowledgedIsCommitted` compares the offsets.

    Source: KIP-98, KIP-360; Kafka's ``ProducerStateManager``; ours (ADR 076).
    """

    def _begin(self) -> None:
        self._ids: set[int] = set()

    def id_issued(self, issued: invariant.IssuedId) -> None:
        if issued.producer_id in self._ids:
            raise self.violated(f"node {issued.node_id} issues producer id {issued.producer_id} once more")
        self._ids.add(issued.producer_id)

    def produced(self, answer: invariant.ProducerAnswer) -> None:
        batch = f"sequence {answer.base_sequence} of epoch {answer.producer_epoch} of producer {answer.producer_id}"
        seen = f"node {answer.node_id} answers {answer.error.name} to {batch}"
        committed_end = self.facts.committed.end_offset
        if answer.error == ErrorCode.NONE:
            end_offset = answer.base_offset + len(answer.operation.values)
            if end_offset > committed_end:
                raise self.violated(f"{seen}, at offset {answer.base_offset}; all below {committed_end} is committed")
        elif answer.error in NEVER:
            raise self.violated(seen)
        elif answer.error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and answer.is_next:
            raise self.violated(f"{seen}, the next one after what was acknowledged")
        elif answer.error == ErrorCode.UNKNOWN_PRODUCER_ID and not self._may_be_unknown:
            raise self.violated(f"{seen}, and no node has forgotten any")

    @property
    def _may_be_unknown(self) -> bool:
        remembered_max = min(node.config.client_producers_max for node in self.facts.nodes.values())
        return bool(self.facts.records_between) or len(self._ids) > remembered_max


class ProducersKeepOrder(invariant.Invariant):
    """Committed batches of a producer id have ascending epochs, and in each of them sequences from 0 on, each once.

    This holds for the log alone, whatever the producers believe: epochs of one producer id ascend, each begins with
    sequence 0, and each batch begins where the one before it ended.

    Source: KIP-98 §Idempotent producer guarantees; KIP-360 (a higher epoch begins at 0); Kafka's
    ``ProducerAppendInfo``.
    """

    def _begin(self) -> None:
        self._end_offset = 0
        self._next: dict[int, tuple[int, int]] = {}
        """By producer id: its epoch, and the next sequence in it."""

    def delivered(self, _node: invariant.SimulatedNode, batches: Sequence[invariant.CommittedBatch]) -> None:
        for batch in batches:
            if batch.base_offset < self._end_offset:
                continue
            self._end_offset = batch.end_offset
            header = read_header(batch.data)
            if header.producer_id < 0:
                continue
            epoch, expected = self._next.get(header.producer_id, (header.producer_epoch, 0))
            if header.producer_epoch > epoch:
                epoch, expected = header.producer_epoch, 0
            if (header.producer_epoch, header.base_sequence) != (epoch, expected):
                found = f"sequence {header.base_sequence} of epoch {header.producer_epoch}"
                seen = f"producer {header.producer_id} has {found} at offset {header.base_offset}"
                raise self.violated(f"{seen}; the next one is {expected} of epoch {epoch}")
            self._next[header.producer_id] = epoch, expected + header.records_count


class RejectedStaysOut(invariant.Invariant):
    """No value is both rejected and committed, in either order.

    An unknown outcome must be reported as unknown. A client that takes it for a rejection would propose the value
    twice.

    Source: ours (`pykraft.host.producers.Rejected`); the story is that of every database driver that retried a
    timeout.
    """

    def _begin(self) -> None:
        self._rejected: set[bytes] = set()
        self._committed: set[bytes] = set()

    def decided(self, operation: invariant.Operation) -> None:
        if operation.answer is history.OperationOutcome.REJECTED:
            self._rejected.update(operation.values)
            self._compare(operation.values)

    def committed(self, _base_offset: int, values: Sequence[bytes]) -> None:
        self._committed.update(values)
        self._compare(values)

    def _compare(self, values: Sequence[bytes]) -> None:
        for value in values:
            if value in self._rejected and value in self._committed:
                raise self.violated(f"the value {value[:13].decode('ascii', 'replace')} was rejected and is committed")


class RoomIsUsed(invariant.Invariant):
    """No leader rejects an append for a full buffer and has room for two batches at the end of the same step.

    An append that finds the buffer full of prepared appends schedules them, because nothing else may ever do so,
    and uses the room that this makes.

    Source: Kafka ``KafkaRaftClient.append`` (BufferAllocationException); that an append makes room is ours.
    """

    def decided(self, operation: invariant.Operation) -> None:
        node = self.facts.nodes[operation.node_id]
        state = node.host.raft.state if node.host is not None and node.host.raft is not None else None
        if not operation.lacked_room or operation.is_prepared or not isinstance(state, Leader):
            return
        waiting, most = state.accumulation.waiting_count, node.config.raft.accumulated_batches_max
        if waiting + 1 < most:
            seen = f"leader {operation.node_id} has no room for operation {operation.number}"
            raise self.violated(f"{seen}, and {waiting} batches in a buffer of {most}")


ANSWER_US: Final = 2_000_000
"""An answer waits at most for the disk, which may be slow; the time of a stall is not counted."""
OTHER_ANSWERS: Final = 3
"""Other answers may come first: those with a diverging epoch, or with a snapshot whose download fails at once."""
REFUSALS: Final = (ErrorCode.INVALID_REQUEST, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.BROKER_NOT_AVAILABLE)


class _Known(NamedTuple):
    """The facts that an answer is about, at one moment."""

    epoch: int
    voters: tuple[NodeId, ...]
    leader_id: int | None
    end_offset: int


class ClientsAreToldTheTruth(invariant.Invariant):
    """Answers name the voters of the log, the leader, and offsets that replicas have; the impossible is refused.

    Tools and operators act on these answers: who the voters are, how far each replica is, who leads, and where to
    ask. The oracle compares the answers with the logs, and with the offsets at which each replica fetched. Who asks
    for committed records only gets no others.

    Source: KIP-595 §DescribeQuorum, KIP-836, KIP-919 (DescribeCluster), KIP-853 §AddRaftVoter; ADR 118.
    """

    def _begin(self) -> None:
        self._asked: dict[invariant.Visit, _Known] = {}
        self._fetched: dict[tuple[int, int], int] = {}
        """By node and epoch: the highest offset it has fetched at."""
        self._first: dict[tuple[int, int, int | None], tuple[Process, int]] = {}
        """By node, epoch and leader: the process that fetches there, and the number of answers it had when it began.

        It begins anew when it follows that leader again, and after each download of a snapshot.
        """

    def before_send(self, node: invariant.SimulatedNode, spoken: invariant.Spoken) -> None:
        key = (int(node.node_id), spoken.epoch)
        if spoken.fetched is not None:
            self._fetched[key] = max(self._fetched.get(key, 0), spoken.fetched.offset)
        process, status, asked = node.process, node.status, (*key, spoken.target_id)
        if process is None or status is None or spoken.target_id is None:
            return
        is_followed = (status.epoch, status.leader_id) == (spoken.epoch, spoken.target_id)
        # Who looks for a leader asks all bootstrap servers, and may have many errors from one that leads later. And a
        # leader does not note a Fetch that it answers with a snapshot (nor does Kafka); a slow replica may get many
        # such answers, when the leader removes each snapshot before its download is done, and one without room for it.
        if not is_followed or spoken.sliced is not None or self._gets_snapshot(spoken):
            self._first.pop(asked, None)
        elif spoken.fetched is not None and self._first.get(asked, (None, 0))[0] is not process:
            self._first[asked] = (process, process.wiretap.fetch_answers[spoken.target_id])

    def _gets_snapshot(self, spoken: invariant.Spoken) -> bool:
        leader = None if spoken.target_id is None else self.facts.nodes.get(NodeId(spoken.target_id))
        raft = None if leader is None or leader.host is None else leader.host.raft
        if spoken.fetched is None or raft is None:
            return False
        # An empty replica gets the newest snapshot even if the whole log is still there.
        is_empty = spoken.fetched.offset == 0 and bool(raft.log.snapshots)
        return is_empty or spoken.fetched.offset < raft.log.start_offset

    def visited(self, node: invariant.SimulatedNode, visit: invariant.Visit) -> None:
        is_unserved = (
            visit.question is history.VisitQuestion.ADD_IMPOSSIBLE_VOTER and node.config.operator_listeners == ()
        )
        if visit.is_refused:
            del self._asked[visit]
            if not is_unserved:
                raise self.violated(f"node {node.node_id} closes the connection of {visit.question.name}")
            return
        if visit.answer is None:
            self._asked[visit] = self._known(node)
            return
        if is_unserved:
            raise self.violated(f"node {node.node_id} answers an operator, whom none of its listeners serves")
        moments = (self._asked.pop(visit), self._known(node))
        if node.is_damaged:
            return  # A snapshot may name voters in place of the lost records.
        if self.facts.claims.is_any:
            return  # Leader and offsets may come from a stranger.
        match visit.question:
            case history.VisitQuestion.DESCRIBE_QUORUM:
                self._look_at_quorum(node, visit.answer, moments)
            case history.VisitQuestion.DESCRIBE_CLUSTER:
                self._look_at_cluster(node, visit.answer, moments)
            case history.VisitQuestion.DESCRIBE_BROKERS:
                self._look_at_brokers(node, visit.answer)
            case history.VisitQuestion.ADD_IMPOSSIBLE_VOTER:
                error = ErrorCode(visit.answer["error_code"])
                if error not in REFUSALS:
                    raise self.violated(f"node {node.node_id} answers {error.name} to a voter that nobody may add")
            case history.VisitQuestion.FETCH_COMMITTED:
                self._look_at_records(node, visit.answer)

    def after_event(self, node: invariant.SimulatedNode, _now: invariant.View) -> None:
        now_us = self.facts.clock.now_us
        for visit in [each for each in self._asked if now_us - each.asked_us > ANSWER_US]:
            waited_us = now_us - max(visit.asked_us, node.disk.io_errors.stalled_until_us)
            if not visit.is_open:
                del self._asked[visit]
            elif visit.process is node.process and waited_us > ANSWER_US and not node.was_paused_since(visit.asked_us):
                raise self.violated(f"node {node.node_id} has not answered {visit.question.name} in {waited_us} us")

    def _known(self, node: invariant.SimulatedNode) -> _Known:
        status = node.status
        assert status is not None
        voters = self.facts.members.voters_of(node).ids
        return _Known(status.epoch, voters, status.leader_id, status.log_end_offset)

    def _look_at_quorum(self, node: invariant.SimulatedNode, answer: Body, moments: tuple[_Known, _Known]) -> None:
        partition = answer["topics"][0]["partitions"][0]
        if answer["error_code"] or partition["error_code"]:
            return
        node_id, (before, after) = int(node.node_id), moments
        epoch, voters = partition["leader_epoch"], partition["current_voters"]
        told = tuple(row["replica_id"] for row in voters)
        said = f"node {node_id} says of epoch {epoch}"
        if partition["leader_id"] != node_id or epoch not in (before.epoch, after.epoch):
            raise self.violated(f"{said} that {partition['leader_id']} leads; it is itself in epoch {after.epoch}")
        if told not in (before.voters, after.voters):
            raise self.violated(f"{said} that the voters are {[*told]}, its log says {[*after.voters]}")
        if partition["high_watermark"] > self.facts.committed.end_offset:
            raise self.violated(f"{said} that all below {partition['high_watermark']} is committed")
        # A twin of a voter is an observer with the voter's id, and nobody watches where it fetches.
        known = [row for row in partition["observers"] if row["replica_id"] not in self.facts.claims.twin_ids]
        for row in (*voters, *known):
            self._look_at_row(node_id, epoch, row, moments, said)
        listed = {row["replica_id"] for row in (*voters, *partition["observers"])}
        nodes = self.facts.nodes.values()
        missing = [int(other.node_id) for other in nodes if self._must_be_listed(other, node, listed)]
        if missing:
            raise self.violated(f"{said} that the replicas are {sorted(listed)}; {missing} fetch from it as well")

    def _look_at_row(self, node_id: int, epoch: int, row: Body, moments: tuple[_Known, _Known], said: str) -> None:
        """Check one replica's offset: at most its highest fetch offset, and for the leader its log end."""
        replica_id, end_offset = row["replica_id"], row["log_end_offset"]
        if replica_id == node_id:
            least, most = sorted(each.end_offset for each in moments)
        else:
            least, most = -1, self._fetched.get((replica_id, epoch), -1)
        if not least <= end_offset <= most:
            raise self.violated(f"{said} that replica {replica_id} is at {end_offset}; it is at {least} to {most}")

    def _must_be_listed(
        self, other: invariant.SimulatedNode, leader: invariant.SimulatedNode, listed: set[int]
    ) -> bool:
        """True for a follower that the list lacks although this leader has answered its Fetches."""
        status, other_id = other.status, int(other.node_id)
        assert leader.status is not None
        process, answered = self._first.get((other_id, leader.status.epoch, int(leader.node_id)), (None, 0))
        if status is None or process is None or process is not other.process or other_id in listed:
            return False
        is_its = (status.epoch, status.leader_id) == (leader.status.epoch, leader.node_id)
        return is_its and process.wiretap.fetch_answers[int(leader.node_id)] > answered + OTHER_ANSWERS

    def _look_at_records(self, node: invariant.SimulatedNode, answer: Body) -> None:
        partition, committed = answer["responses"][0]["partitions"][0], self.facts.committed.end_offset
        for _, header in scan(partition["records"] or b""):
            if header.end_offset > committed:
                seen = f"node {node.node_id} sends the batch at {header.base_offset} to who wants committed records"
                raise self.violated(f"{seen}; all below {committed} is committed")

    def _look_at_cluster(self, node: invariant.SimulatedNode, answer: Body, moments: tuple[_Known, _Known]) -> None:
        if answer["endpoint_type"] != CONTROLLERS:
            raise self.violated(f"node {node.node_id} names brokers to who asks for controllers")
        if answer["error_code"]:
            return
        told = {broker["broker_id"] for broker in answer["brokers"]}
        expected = [{*each.voters, each.leader_id} for each in moments]
        leaders = [each.leader_id for each in moments]
        if answer["controller_id"] not in leaders or told not in expected:
            seen = f"node {node.node_id} says that {answer['controller_id']} leads the nodes {sorted(told)}"
            raise self.violated(f"{seen}; it follows {leaders[-1]}, and its log names {[*moments[-1].voters]}")

    def _look_at_brokers(self, node: invariant.SimulatedNode, answer: Body) -> None:
        """Who asks for brokers gets them where clients are served, and elsewhere the error for it."""
        serves_clients = bool(node.config.client_listeners)
        error = ErrorCode(answer["error_code"])
        expected = ErrorCode.NONE if serves_clients else ErrorCode.MISMATCHED_ENDPOINT_TYPE
        if (error, answer["endpoint_type"]) != (expected, BROKERS):
            seen = f"node {node.node_id} answers {error.name} to who asks for brokers"
            raise self.violated(f"{seen}; it serves {'clients' if serves_clients else 'none'}")

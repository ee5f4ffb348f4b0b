"""A node answers questions about the quorum truthfully and in time, and refuses impossible changes.

Tools and operators act on these answers: who the voters are, how far each replica is, who leads, and where to ask. The
oracle compares the answers with the logs, and with the offsets at which each replica fetched. Who asks for committed
records only gets no others.

Source: KIP-595 §DescribeQuorum, KIP-836, KIP-919 (DescribeCluster), KIP-853 §AddRaftVoter; ADR 118.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pykraft.errors import ErrorCode
from pykraft.host.describe_cluster import CONTROLLERS
from pykraft.host.inbound import BROKERS
from pykraft.protocol.batch import scan
from pykraft.protocol.schema import Body
from pykraft.sim.facts.history import VisitQuestion
from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, Spoken, View, Visit
from pykraft.sim.machine.node import Process
from pykraft.types import NodeId

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


class ClientsAreToldTheTruth(Invariant):
    """Answers name the voters of the log, the leader, and offsets that replicas have; the impossible is refused."""

    def _begin(self) -> None:
        self._asked: dict[Visit, _Known] = {}
        self._fetched: dict[tuple[int, int], int] = {}
        """By node and epoch: the highest offset it has fetched at."""
        self._first: dict[tuple[int, int, int | None], tuple[Process, int]] = {}
        """By node, epoch and leader: the process that fetches there, and the number of answers it had when it began.

        It begins anew when it follows that leader again, and after each download of a snapshot.
        """

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        """Remember the fetch offset of a replica, and from when on its leader's answers count."""
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

    def _gets_snapshot(self, spoken: Spoken) -> bool:
        """True for a Fetch below the leader's log start."""
        leader = None if spoken.target_id is None else self.facts.nodes.get(NodeId(spoken.target_id))
        status = None if leader is None else leader.status
        return spoken.fetched is not None and status is not None and spoken.fetched.offset < status.log_start_offset

    def visited(self, node: SimulatedNode, visit: Visit) -> None:
        """Compare an answer with the facts when the question was asked, and with those of now."""
        is_unserved = visit.question is VisitQuestion.ADD_IMPOSSIBLE_VOTER and node.config.operator_listeners == ()
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
            case VisitQuestion.DESCRIBE_QUORUM:
                self._look_at_quorum(node, visit.answer, moments)
            case VisitQuestion.DESCRIBE_CLUSTER:
                self._look_at_cluster(node, visit.answer, moments)
            case VisitQuestion.DESCRIBE_BROKERS:
                self._look_at_brokers(node, visit.answer)
            case VisitQuestion.ADD_IMPOSSIBLE_VOTER:
                error = ErrorCode(visit.answer["error_code"])
                if error not in REFUSALS:
                    raise self.violated(f"node {node.node_id} answers {error.name} to a voter that nobody may add")
            case VisitQuestion.FETCH_COMMITTED:
                self._look_at_records(node, visit.answer)

    def after_event(self, node: SimulatedNode, _now: View) -> None:
        """Look for a question that has waited too long."""
        now_us = self.facts.clock.now_us
        for visit in [each for each in self._asked if now_us - each.asked_us > ANSWER_US]:
            waited_us = now_us - max(visit.asked_us, node.disk.io_errors.stalled_until_us)
            if not visit.is_open:
                del self._asked[visit]
            elif visit.process is node.process and waited_us > ANSWER_US and not node.was_paused_since(visit.asked_us):
                raise self.violated(f"node {node.node_id} has not answered {visit.question.name} in {waited_us} us")

    def _known(self, node: SimulatedNode) -> _Known:
        status = node.status
        assert status is not None
        voters = self.facts.members.voters_of(node).ids
        return _Known(status.epoch, voters, status.leader_id, status.log_end_offset)

    def _look_at_quorum(self, node: SimulatedNode, answer: Body, moments: tuple[_Known, _Known]) -> None:
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

    def _must_be_listed(self, other: SimulatedNode, leader: SimulatedNode, listed: set[int]) -> bool:
        """True for a follower that the list lacks although this leader has answered its Fetches."""
        status, other_id = other.status, int(other.node_id)
        assert leader.status is not None
        process, answered = self._first.get((other_id, leader.status.epoch, int(leader.node_id)), (None, 0))
        if status is None or process is None or process is not other.process or other_id in listed:
            return False
        is_its = (status.epoch, status.leader_id) == (leader.status.epoch, leader.node_id)
        return is_its and process.wiretap.fetch_answers[int(leader.node_id)] > answered + OTHER_ANSWERS

    def _look_at_records(self, node: SimulatedNode, answer: Body) -> None:
        partition, committed = answer["responses"][0]["partitions"][0], self.facts.committed.end_offset
        for _, header in scan(partition["records"] or b""):
            if header.end_offset > committed:
                seen = f"node {node.node_id} sends the batch at {header.base_offset} to who wants committed records"
                raise self.violated(f"{seen}; all below {committed} is committed")

    def _look_at_cluster(self, node: SimulatedNode, answer: Body, moments: tuple[_Known, _Known]) -> None:
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

    def _look_at_brokers(self, node: SimulatedNode, answer: Body) -> None:
        """Who asks for brokers gets them where clients are served, and elsewhere the error for it."""
        serves_clients = bool(node.config.client_listeners)
        error = ErrorCode(answer["error_code"])
        expected = ErrorCode.NONE if serves_clients else ErrorCode.MISMATCHED_ENDPOINT_TYPE
        if (error, answer["endpoint_type"]) != (expected, BROKERS):
            seen = f"node {node.node_id} answers {error.name} to who asks for brokers"
            raise self.violated(f"{seen}; it serves {'clients' if serves_clients else 'none'}")

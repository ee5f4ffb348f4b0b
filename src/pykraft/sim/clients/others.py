"""The clients of a world besides its workload: a visitor, idempotent producers, and members of consumer groups.

Each has a random generator of its own, so a world without them is the same as before they existed.

The visitor asks a node now and then what any tool would ask, and for changes that no leader may accept. It calls the
host of a running process directly. Without a network between them nothing is lost, and no other random draw in the
world changes. Oracles check the answers.

A producer finds the leader, gets an id, and sends numbered batches, up to five before the first answer. What was not
answered is sent again, in order and with the same numbers, on the same connection or on the next one; old copies may
still arrive. The producer itself gives up some connections. A batch whose outcome it cannot find out stays unknown, and
is never sent under another number: that is what keeps its records from being doubled.

Source: KIP-595 §DescribeQuorum, KIP-919 (DescribeCluster), KIP-853 §AddRaftVoter; ADR 118; KIP-98, KIP-360; Kafka's
``Sender`` and ``TransactionManager``; `pykraft.protocol.batch` has the layout of a batch.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final, Protocol, TypeAlias

from pykraft.core.messages import AddVoterRequest, DescribeQuorumRequest, FetchRequest, Request
from pykraft.errors import ErrorCode
from pykraft.host.describe_cluster import CONTROLLERS
from pykraft.host.inbound import BROKERS
from pykraft.host.ports import ConnectionId
from pykraft.protocol import api
from pykraft.protocol.api import decode_response
from pykraft.protocol.batch import number_batch
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.records import encode_batch
from pykraft.protocol.schema import Body
from pykraft.rpc import codec
from pykraft.sim.clients.leader_station import LeaderStation
from pykraft.sim.clients.members import SimulatedGroupMember
from pykraft.sim.facts import history
from pykraft.sim.facts.facts import Facts
from pykraft.sim.invariants.watch import Watch
from pykraft.sim.machine.node import SimulatedNode
from pykraft.sim.scenario.settings import listeners_of, rpc_context
from pykraft.types import NO_LISTENERS, ZERO_UUID, Buffer, Epoch, NodeId, Offset, ReplicaKey, Uuid


def producer_batch(
    values: Sequence[bytes], *, producer_id: int, producer_epoch: int, base_sequence: int, timestamp_ms: int
) -> bytes:
    """The bytes of one batch as a producer sends them: at offset 0, without a leader epoch."""
    batch = bytearray(encode_batch(values, base_offset=Offset(0), epoch=Epoch(0), timestamp_ms=timestamp_ms).data)
    number_batch(batch, producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=base_sequence)
    return bytes(batch)


OVERHEAD_BYTES_MAX: Final = 64
"""What a batch takes beside its records, or a record beside its padding."""
FIRST_STATION_ID: Final = 900
"""No node and no stranger has this id or one of the next."""
FIRST_NUMBER: Final = 10**11
"""The values of a producer are numbered from here on, and from the next multiple for the next producer."""
IN_FLIGHT_MAX: Final = 5
ALL_ACKS: Final = -1
REQUEST_TIMEOUT_US: Final = 400_000
DELIVERY_TIMEOUT_US: Final = 2_500_000
BACKOFF_US_MAX: Final = 60_000
_UNCERTAIN: Final = (ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH)
"""Nobody can tell the producer any more which of its batches are in the log."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Batch:
    operation: history.Operation
    producer_id: int
    producer_epoch: int
    base_sequence: int
    data: bytes
    is_open: bool = True


class SimulatedProducer(LeaderStation):
    """Number ``index`` of its world."""

    def __init__(self, facts: Facts, watch: Watch, rng: Random, index: int) -> None:
        super().__init__(facts, watch, rng, FIRST_STATION_ID + index, "producer")
        self.acknowledged_us = -1
        """When the newest batch was acknowledged; -1 before."""
        self._settings = facts.scenario.producers
        config = next(iter(facts.nodes.values())).config
        # Leaders with small buffers refuse larger batches.
        fits = (config.raft.batch_size_bytes_max - OVERHEAD_BYTES_MAX) // self._settings.values_max - OVERHEAD_BYTES_MAX
        self._value_size_bytes_max = min(rng.choice(self._settings.value_size_bytes_max), fits)
        self._is_ready = False
        """True when the connection's node has said that it leads, and the producer has an id."""
        self._is_behind = False
        """True when a request on this connection got an error, so those after it may get one, too."""
        self._rests_until_us = 0
        self._producer_id = -1
        self._producer_epoch = 0
        self._next_sequence = 0
        self._in_flight: deque[_Batch] = deque()
        self._next_number = FIRST_NUMBER * (1 + index)

    def begin(self) -> None:
        self._facts.network.attach(self)
        self._later(self._settings.period_us)

    def _turn(self) -> None:
        self._later(self._rng.randint(self._settings.period_us // 2, self._settings.period_us * 2))
        now_us, rng, settings = self._facts.clock.now_us, self._rng, self._settings
        if now_us < self._rests_until_us:
            return
        oldest = self._in_flight[0] if self._in_flight else None
        is_late = oldest is not None and now_us - oldest.operation.invoked_us > DELIVERY_TIMEOUT_US
        if rng.random() < settings.restart_probability:
            self._forget_id()
        elif self._producer_id >= 0 and (is_late or rng.random() < settings.bump_probability):
            self._bump()
        elif self._connection is None:
            self._dial()
        elif self._asked and (
            now_us - self._asked[0].asked_us > REQUEST_TIMEOUT_US or rng.random() < settings.impatience
        ):
            self._hang_up()
        elif not self._in_flight and rng.random() < settings.sleep_probability:
            self._rests_until_us = now_us + rng.randrange(settings.sleep_us_max)
        elif self._is_ready and not self._is_behind and len(self._in_flight) < IN_FLIGHT_MAX:
            self._produce()

    def _produce(self) -> None:
        values = tuple(self._next_value() for _ in range(self._rng.randint(1, self._settings.values_max)))
        node, now_us = self._facts.nodes[self._target_id], self._facts.clock.now_us
        operation = history.Operation(
            number=len(self._facts.history.operations),
            node_id=self._target_id,
            epoch=Epoch(self._leader_epoch),
            values=values,
            invoked_us=now_us,
            invoked_mono_ms=node.clock.instant.mono_ms,
            # No process has to answer it: the producer asks another one.
            is_alive=lambda: False,
        )
        self._facts.history.operations.append(operation)
        self._watch.proposed(operation)
        batch = _Batch(
            operation=operation,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=self._next_sequence,
            data=producer_batch(
                values,
                producer_id=self._producer_id,
                producer_epoch=self._producer_epoch,
                base_sequence=self._next_sequence,
                timestamp_ms=now_us // 1_000,
            ),
        )
        self._next_sequence += len(values)
        self._in_flight.append(batch)
        self._send(batch)

    def _send(self, batch: _Batch) -> None:
        part = {"index": 0, "records": batch.data}
        topics = [{"name": self._topic, "partition_data": [part]}]
        body = {"acks": ALL_ACKS, "timeout_ms": REQUEST_TIMEOUT_US // 1_000, "topic_data": topics}
        self._ask(ApiKey.PRODUCE, body, partial(self._batch_answered, batch))

    def _send_again(self) -> None:
        self._is_behind = False
        for batch in self._in_flight:
            self._send(batch)

    def _found_leader(self) -> None:
        if self._producer_id < 0:
            body = {"transactional_id": None, "transaction_timeout_ms": 60_000}
            self._ask(ApiKey.INIT_PRODUCER_ID, body, self._id_issued)
        else:
            self._is_ready = True
            self._send_again()

    def _id_issued(self, body: Body) -> None:
        if body["error_code"] != ErrorCode.NONE:
            # The node leads no more and could not ask the next leader in time.
            self._hang_up()
            return
        self._producer_id, self._producer_epoch, self._next_sequence = body["producer_id"], body["producer_epoch"], 0
        self._watch.id_issued(history.IssuedId(node_id=self._target_id, producer_id=self._producer_id))
        self._is_ready = True

    def _batch_answered(self, batch: _Batch, body: Body) -> None:
        [topic] = body["responses"]
        [part] = topic["partition_responses"]
        error = ErrorCode(part["error_code"])
        if not batch.is_open:
            return
        is_next = self._in_flight[0] is batch
        answer = history.ProducerAnswer(
            node_id=self._target_id,
            operation=batch.operation,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            error=error,
            base_offset=part["base_offset"],
            is_next=is_next,
        )
        self._watch.produced(answer)
        if error == ErrorCode.NONE:
            self._in_flight.remove(batch)
            self.acknowledged_us = self._facts.clock.now_us
            self._decide(batch, history.OperationOutcome.COMMITTED, part["base_offset"])
        elif error in _UNCERTAIN or (error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and is_next):
            self._forget_id()
            return
        elif error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._hang_up()
            return
        else:
            self._is_behind = True
        if self._is_behind and not self._asked:
            self._try_again()

    def _try_again(self) -> None:
        if self._rng.random() < 0.5:
            self._hang_up()
        else:
            connection = self._connection
            self._after(lambda: self._send_again() if self._connection == connection and not self._asked else None)

    def _bump(self) -> None:
        """Give up what is unanswered, and number from 0 under the next epoch (KIP-360)."""
        self._hang_up()
        self._give_up()
        self._producer_epoch += 1
        self._next_sequence = 0

    def _forget_id(self) -> None:
        """Give up what is unanswered, and ask for a new id."""
        self._hang_up()
        self._give_up()
        self._producer_id = -1

    def _give_up(self) -> None:
        """Nobody will know whether these batches are in the log."""
        for batch in self._in_flight:
            self._decide(batch, history.OperationOutcome.UNKNOWN, None)
        self._in_flight.clear()

    def _decide(self, batch: _Batch, outcome: history.OperationOutcome, base_offset: int | None) -> None:
        operation, batch.is_open = batch.operation, False
        operation.answer, operation.base_offset = outcome, base_offset
        operation.answered_us = self._facts.clock.now_us
        self._watch.decided(operation)

    def _lose(self) -> None:
        super()._lose()
        self._is_ready = self._is_behind = False

    def _next_value(self) -> bytes:
        self._next_number += 1
        return history.value_of(self._next_number, history.WRITE, self._rng.randrange(self._value_size_bytes_max))

    def _after(self, act: Callable[[], None]) -> None:
        self._facts.clock.after(self._rng.randrange(BACKOFF_US_MAX), act)


class Users(Protocol):
    """The applications of all processes, and their clients."""

    @property
    def acknowledged(self) -> int:
        """Number of acknowledged values."""

    @property
    def acknowledged_end_offset(self) -> int:
        """Exclusive end of what was acknowledged."""

    def begin(self) -> None:
        """The world begins."""

    def started(self, node: SimulatedNode) -> None:
        """A process starts; its host has not taken its first step."""

    def over(self) -> None:
        """The world has healed: check what can only be checked at the end. Errors: ViolationError."""


MakeUsers: TypeAlias = Callable[[Facts, Watch, Callable[[str], Random]], Users]
"""The last argument returns the random generator of the named part of the world."""


PERIOD_US: Final = 120_000
NOBODY_ID: Final = NodeId(77)
"""No node of a world has this id."""
TIMEOUT_MS: Final = 500
FETCH_PROBABILITY: Final = 0.4
"""In so many worlds the visitor fetches, too."""
BROKERS_PROBABILITY: Final = 0.2
"""So many turns have a question for brokers, too."""
FETCH_SIZE_BYTES_MAX: Final = 64 * 1024
QUESTIONS: Final = (
    history.VisitQuestion.DESCRIBE_QUORUM,
    history.VisitQuestion.DESCRIBE_CLUSTER,
    history.VisitQuestion.ADD_IMPOSSIBLE_VOTER,
)
_FRAME_LENGTH_SIZE_BYTES: Final = 4


class Visitor:
    """The client of one world; only some worlds have one."""

    def __init__(self, facts: Facts, watch: Watch, rng: Random) -> None:
        self._facts = facts
        self._watch = watch
        self._rng = rng
        self._is_there = rng.random() < facts.scenario.work.visitor_probability
        # Generators of their own, so that worlds without these questions stay what they were.
        self._brokers_dice = Random(f"{facts.seed} brokers")
        self._dice = Random(f"{facts.seed} fetch")
        self._fetches = self._dice.random() < FETCH_PROBABILITY
        self._asked = 0
        self._context = rpc_context(next(iter(facts.nodes.values())).config)

    def begin(self) -> None:
        """Plan the first question, if this world has such a client."""
        if self._is_there:
            self._facts.clock.after(self._rng.randrange(PERIOD_US), self._turn)

    def _turn(self) -> None:
        self._facts.clock.after(self._rng.randint(PERIOD_US // 2, PERIOD_US * 2), self._turn)
        awake = [node for node in self._facts.nodes.values() if node.process and not node.process.is_paused]
        leading = [node for node in awake if node.status is not None and node.status.leads]
        choice = leading if leading and self._rng.random() < 0.5 else awake
        question = self._rng.choice(QUESTIONS)
        if choice:
            node = self._rng.choice(choice)
            self._ask(node, question, self._rng)
            if self._fetches and node.process is not None:
                self._ask(node, history.VisitQuestion.FETCH_COMMITTED, self._dice)
            if node.process is not None and self._brokers_dice.random() < BROKERS_PROBABILITY:
                self._ask(node, history.VisitQuestion.DESCRIBE_BROKERS, self._brokers_dice)

    def _ask(self, node: SimulatedNode, question: history.VisitQuestion, rng: Random) -> None:
        assert node.process is not None
        self._asked += 1
        visit = history.Visit(question=question, process=node.process, asked_us=self._facts.clock.now_us)
        self._watch.visited(node, visit)

        def answered(parts: Sequence[Buffer]) -> None:
            if not parts:
                visit.is_refused = True
                self._watch.visited(node, visit)
                return
            frame = b"".join(parts)[_FRAME_LENGTH_SIZE_BYTES:]
            _, visit.answer = decode_response(question.api_key, question.version, frame)
            self._watch.visited(node, visit)

        node.process.visit(ConnectionId(-self._asked), self._request(node, question, rng), answered)

    def _request(self, node: SimulatedNode, question: history.VisitQuestion, rng: Random) -> bytes:
        version = question.version
        if question.api_key == ApiKey.DESCRIBE_CLUSTER:
            endpoint_type = BROKERS if question is history.VisitQuestion.DESCRIBE_BROKERS else CONTROLLERS
            body = {"include_cluster_authorized_operations": False, "endpoint_type": endpoint_type}
            return b"".join(api.encode_request(ApiKey.DESCRIBE_CLUSTER, version, 1, "visitor", body))
        message: Request
        match question:
            case history.VisitQuestion.DESCRIBE_QUORUM:
                message = DescribeQuorumRequest()
            case history.VisitQuestion.ADD_IMPOSSIBLE_VOTER:
                message = self._impossible_voter()
            case history.VisitQuestion.FETCH_COMMITTED:
                message = self._fetch(node, rng)
        return b"".join(codec.encode_request(message, version, 1, "visitor", self._context))

    def _fetch(self, node: SimulatedNode, rng: Random) -> FetchRequest:
        ledger = self._facts.ledger(node)
        at = rng.randint(0, len(ledger.entries))
        before = ledger.entries[at - 1] if at else None
        assert node.status is not None
        return FetchRequest(
            replica=None,
            epoch=node.status.epoch,
            fetch_offset=Offset(before.end_offset if before else ledger.begin.offset),
            last_fetched_epoch=Epoch(before.epoch if before else ledger.begin.epoch),
            wait_ms_max=0,
            size_bytes_max=FETCH_SIZE_BYTES_MAX,
            high_watermark=-1,
            is_committed_only=True,
        )

    def _impossible_voter(self) -> AddVoterRequest:
        has_id = self._rng.random() < 0.5
        return AddVoterRequest(
            voter=ReplicaKey(NOBODY_ID, Uuid(self._rng.randbytes(16)) if has_id else ZERO_UUID),
            listeners=NO_LISTENERS if has_id else listeners_of(NOBODY_ID),
            timeout_ms=TIMEOUT_MS,
        )


class OtherClients:
    """The visitor, the producers and the members of groups of one world."""

    def __init__(
        self, facts: Facts, watch: Watch, dice: Callable[[str], Random], *, producer_count: int, group_count: int
    ) -> None:
        """``dice`` returns the random generator of the named part of the world."""
        self.visitor = Visitor(facts, watch, dice("visitor"))
        self.producers = [
            SimulatedProducer(facts, watch, dice(f"producer {index}"), index) for index in range(producer_count)
        ]
        members = dice("members of groups").choice(facts.scenario.groups.members)
        self.members = [
            SimulatedGroupMember(facts, watch, dice(f"member {index}"), index, index % group_count)
            for index in range(group_count * members)
        ]
        self._faults_us = facts.scenario.course.faults_us

    def begin(self) -> None:
        """Schedule what they do first."""
        self.visitor.begin()
        for client in (*self.producers, *self.members):
            client.begin()

    @property
    def are_served(self) -> bool:
        """True when each producer and each group has got an acknowledgment since the faults ended."""
        groups = {each.group_id for each in self.members}
        served = {each.group_id for each in self.members if each.committed_us > self._faults_us}
        return groups == served and all(each.acknowledged_us > self._faults_us for each in self.producers)

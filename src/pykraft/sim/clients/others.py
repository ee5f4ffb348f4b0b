"""The clients of a world besides its workload: a visitor, and idempotent producers.

Each has a random generator of its own, so a world without them is the same as before they existed.

The visitor asks a node now and then what any tool would ask, and for changes that no leader may accept. It calls the
host of a running process directly. Without a network between them nothing is lost, and no other random
draw in the world changes. It describes the quorum and the cluster, fetches committed records as a node without an id
does, and tries to add impossible voters: one without a directory id, and one that nobody can dial. It asks for brokers,
too, which only a listener of clients knows. Oracles check the answers.

Source: KIP-595 §DescribeQuorum, KIP-919 (DescribeCluster), KIP-853 §AddRaftVoter; ``kafka-metadata-quorum describe``;
ADR 118.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final, Protocol, TypeAlias

from pykraft.core.messages import AddVoterRequest, DescribeQuorumRequest, FetchRequest, Request
from pykraft.host.describe_cluster import CONTROLLERS
from pykraft.host.inbound import BROKERS
from pykraft.host.ports import ConnectionId
from pykraft.protocol import api
from pykraft.protocol.api import decode_response
from pykraft.protocol.messages import ApiKey
from pykraft.rpc import codec
from pykraft.sim.clients.producer import SimulatedProducer
from pykraft.sim.facts.facts import Facts
from pykraft.sim.facts.visit import Visit, VisitQuestion
from pykraft.sim.invariants.watch import Watch
from pykraft.sim.machine.node import SimulatedNode
from pykraft.sim.scenario.settings import listeners_of, rpc_context
from pykraft.types import NO_LISTENERS, ZERO_UUID, Buffer, Epoch, NodeId, Offset, ReplicaKey, Uuid


class Users(Protocol):
    """The applications of all processes, and their clients."""

    @property
    def acknowledged(self) -> int:
        """Number of acknowledged values."""
        ...

    @property
    def acknowledged_end_offset(self) -> int:
        """Exclusive end of what was acknowledged."""
        ...

    def begin(self) -> None:
        """The world begins."""
        ...

    def started(self, node: SimulatedNode) -> None:
        """A process starts; its host has not taken its first step."""
        ...

    def over(self) -> None:
        """The world has healed: check what can only be checked at the end. Errors: ViolationError."""
        ...


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
    VisitQuestion.DESCRIBE_QUORUM,
    VisitQuestion.DESCRIBE_CLUSTER,
    VisitQuestion.ADD_IMPOSSIBLE_VOTER,
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
                self._ask(node, VisitQuestion.FETCH_COMMITTED, self._dice)
            if node.process is not None and self._brokers_dice.random() < BROKERS_PROBABILITY:
                self._ask(node, VisitQuestion.DESCRIBE_BROKERS, self._brokers_dice)

    def _ask(self, node: SimulatedNode, question: VisitQuestion, rng: Random) -> None:
        assert node.process is not None
        self._asked += 1
        visit = Visit(question=question, process=node.process, asked_us=self._facts.clock.now_us)
        self._watch.visited(node, visit)

        def told(parts: Sequence[Buffer]) -> None:
            if not parts:
                visit.is_refused = True
                self._watch.visited(node, visit)
                return
            frame = b"".join(parts)[_FRAME_LENGTH_SIZE_BYTES:]
            _, visit.answer = decode_response(question.api_key, question.version, frame)
            self._watch.visited(node, visit)

        node.process.visit(ConnectionId(-self._asked), self._request(node, question, rng), told)

    def _request(self, node: SimulatedNode, question: VisitQuestion, rng: Random) -> bytes:
        version = question.version
        if question.api_key == ApiKey.DESCRIBE_CLUSTER:
            endpoint_type = BROKERS if question is VisitQuestion.DESCRIBE_BROKERS else CONTROLLERS
            body = {"include_cluster_authorized_operations": False, "endpoint_type": endpoint_type}
            return b"".join(api.encode_request(ApiKey.DESCRIBE_CLUSTER, version, 1, "visitor", body))
        message: Request
        match question:
            case VisitQuestion.DESCRIBE_QUORUM:
                message = DescribeQuorumRequest()
            case VisitQuestion.ADD_IMPOSSIBLE_VOTER:
                message = self._impossible_voter()
            case VisitQuestion.FETCH_COMMITTED:
                message = self._fetch(node, rng)
        return b"".join(codec.encode_request(message, version, 1, "visitor", self._context))

    def _fetch(self, node: SimulatedNode, rng: Random) -> FetchRequest:
        """A Fetch from where a batch of this node's log begins, or from the log's end."""
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
        """A voter without a directory id, or without an address on the quorum's listener."""
        has_id = self._rng.random() < 0.5
        return AddVoterRequest(
            voter=ReplicaKey(NOBODY_ID, Uuid(self._rng.randbytes(16)) if has_id else ZERO_UUID),
            listeners=NO_LISTENERS if has_id else listeners_of(NOBODY_ID),
            timeout_ms=TIMEOUT_MS,
        )


class OtherClients:
    """The visitor and the producers of one world."""

    def __init__(self, facts: Facts, watch: Watch, dice: Callable[[str], Random], *, producer_count: int) -> None:
        """``dice`` returns the random generator of the named part of the world."""
        self.visitor = Visitor(facts, watch, dice("visitor"))
        self.producers = [
            SimulatedProducer(facts, watch, dice(f"producer {index}"), index) for index in range(producer_count)
        ]
        self._faults_us = facts.scenario.course.faults_us

    def begin(self) -> None:
        """Schedule what they do first."""
        self.visitor.begin()
        for producer in self.producers:
            producer.begin()

    @property
    def are_served(self) -> bool:
        """True when each producer has got an acknowledgment since the faults ended."""
        return all(each.acknowledged_us > self._faults_us for each in self.producers)

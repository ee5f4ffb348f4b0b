"""What a follower asks the leader for its clients: ids of producers, and where static voters serve clients.

A producer asks any node for an id, and Java's asks the node that it is connected to again and again. So a follower asks
the leader, at the client's own listener, for one id at a time. Whoever cannot be answered gets
COORDINATOR_LOAD_IN_PROGRESS: every client asks again after that. A leader that was asked by mistake passes the question
on; each node on the way knows a later epoch than the one before, so no question goes round in a circle. Invariant: at
most WAITING_MAX clients wait, and all are told to ask again when no answer has come for a request timeout.

``controller.quorum.voters`` has one endpoint of each voter. At kraft.version 0 every voter tells each new leader all of
its endpoints (UpdateRaftVoter), but the log has none of them. So a follower whose listener for clients is another one
asks the leader with DescribeQuorum: at every new leader, and again, less and less often, while one is missing.
Invariant: only endpoints of voters are kept, also across elections, so that a new leader is known at once.

Source: KIP-98, KIP-853; Kafka's ``ProducerIdManager``, ``RPCProducerIdManager``; ours (ADR 074, ADR 082).
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pykraft.config import NodeConfig
from pykraft.core.messages import DescribeQuorumRequest, DescribeQuorumResponse
from pykraft.core.status import Status
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.host.clients.producer_states import ProducerStates
from pykraft.host.clients.topics import ClientTopics
from pykraft.host.ports import AT_ONCE_MS, ConnectionId, Ports
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.rpc.connection import DialedConnection
from pykraft.rpc.context import RpcContext
from pykraft.security.principal import UNKNOWN_END, RemoteEnd
from pykraft.types import Buffer, Endpoint, Listeners, NodeId, Voter, VoterSet

WAIT_MIN_MS: Final = 1_000
WAIT_MAX_MS: Final = 30_000
"""Between two questions; it doubles from the shortest to the longest."""


class LeaderQuestions(ABC):
    """One connection to the leader, for one question at a time."""

    client_id: str

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._link: tuple[ConnectionId, Endpoint, DialedConnection] | None = None

    def owns(self, connection: ConnectionId) -> bool:
        return self._link is not None and self._link[0] == connection

    def on_connected(self, connection: ConnectionId, end: RemoteEnd = UNKNOWN_END) -> None:
        del end  # nothing that it answers counts as a vote
        self._ports.send(connection, self._wire(connection).negotiate())

    def on_closed(self, connection: ConnectionId, *, is_refused: bool = False, reason: str = "") -> None:
        """The dial failed, or the connection broke."""
        del connection, is_refused, reason
        self._link = None
        self._failed()

    def on_frame(self, connection: ConnectionId, data: Buffer) -> None:
        wire = self._wire(connection)
        try:
            if wire.is_negotiated:
                self._answered(wire, data)
            else:
                wire.negotiated(data)
                self._ready(connection, wire)
        except ProtocolError:
            # Not one of ours, or it serves no clients: Kafka's controllers know other questions only.
            self._hang_up()
            self._failed()

    @abstractmethod
    def _ready(self, connection: ConnectionId, wire: DialedConnection) -> None:
        """The first question may be asked. Errors: ProtocolError when the leader does not serve it."""

    @abstractmethod
    def _answered(self, wire: DialedConnection, data: Buffer) -> None:
        """Errors: ProtocolError."""

    @abstractmethod
    def _failed(self) -> None:
        """No answer comes on this connection."""

    def _dial(self, endpoint: Endpoint) -> None:
        self._link = (self._ports.dial(endpoint), endpoint, DialedConnection(self.client_id))

    def _wire(self, connection: ConnectionId) -> DialedConnection:
        assert self._link is not None
        assert self._link[0] == connection
        return self._link[2]

    def _hang_up(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            self._ports.close(link[0])


class VoterEndpoints(LeaderQuestions):
    """The endpoints of static voters, by id."""

    client_id = "pykraft-voter-endpoints"

    def __init__(self, ports: Ports, config: NodeConfig) -> None:
        super().__init__(ports)
        self._config = config
        self._context = RpcContext.of(config)
        self._known: dict[NodeId, Listeners] = {}
        self._status = Status()
        self._asked_leader: tuple[int, NodeId] | None = None
        self._wait_ms = WAIT_MIN_MS
        self._next_ms: int | None = None

    @property
    def known(self) -> Mapping[NodeId, Listeners]:
        return self._known

    def after_step(self, status: Status) -> None:
        """After a step: there may be another leader, or this leader may have heard from a voter."""
        before, self._status = self._status, status
        if status.leads:
            if status.told_voters is not before.told_voters:
                self._keep(status.told_voters.voters)
            self._asked_leader, self._next_ms = None, None
            self._hang_up()
            return
        leader = status.serving_leader
        if leader is None or (status.epoch, leader[0]) == self._asked_leader:
            return
        self._asked_leader, self._wait_ms = (status.epoch, leader[0]), WAIT_MIN_MS
        self._next_ms = AT_ONCE_MS if self._lacks_any(status.voters, {}) else None

    def poll(self, mono_ms: int) -> None:
        if self._next_ms is None or self._next_ms > mono_ms:
            return
        # An unanswered question is void.
        self._hang_up()
        leader = self._status.serving_leader
        endpoint = None if leader is None else leader[1].get(self._config.default_listener)
        if endpoint is not None:
            self._dial(endpoint)
        self._next_ms = mono_ms + self._wait_ms
        self._wait_ms = min(2 * self._wait_ms, WAIT_MAX_MS)

    @property
    def next_deadline_ms(self) -> int | None:
        """When `poll` has something to do (mono ms)."""
        return self._next_ms

    def _ready(self, connection: ConnectionId, wire: DialedConnection) -> None:
        self._ports.send(connection, wire.ask(DescribeQuorumRequest(), self._context))

    def _answered(self, wire: DialedConnection, data: Buffer) -> None:
        answer = wire.answered(data, self._context).message
        self._hang_up()
        if isinstance(answer, DescribeQuorumResponse):
            self._keep(answer.nodes)
        if not self._lacks_any(self._status.voters, self._known):
            self._next_ms = None

    def _failed(self) -> None:
        """The leader is asked again later."""

    def _keep(self, told: Iterable[Voter]) -> None:
        ids, names = self._status.voters.ids, self._config.client_listeners
        for each in told:
            # A new leader names one endpoint of a voter that has not told it the others yet.
            if each.key.id in ids and any(each.listeners.get(name) for name in names):
                self._known[each.key.id] = each.listeners

    def _lacks_any(self, voters: VoterSet, known: Mapping[NodeId, Listeners]) -> bool:
        """Whether a static voter has no endpoint for clients, neither as a voter nor in ``known``."""
        if self._status.kraft_version > 0:
            return False
        for voter in voters.voters:
            every = (voter.listeners, known.get(voter.key.id))
            for name in self._config.client_listeners:
                if voter.key.id != self._config.node_id and not any(each and each.get(name) for each in every):
                    return True
        return False


WAITING_MAX: Final = 1_000
"""Clients of a follower that may wait for an id at one time."""
ASK_AGAIN: Final[Body] = {"error_code": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
QUESTION: Final[Body] = {"transactional_id": None, "transaction_timeout_ms": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asker:
    listener: str
    is_wanted: Callable[[], bool]
    answer: Callable[[Body], None]


class ProducerIds(LeaderQuestions):
    """Issues ids, or fetches them from the leader."""

    client_id = "pykraft-producer-ids"

    def __init__(self, ports: Ports, topics: ClientTopics, states: ProducerStates) -> None:
        super().__init__(ports)
        self._topics = topics
        self._states = states
        self._waiting: deque[_Asker] = deque()
        self._is_asking = False
        self._deadline_ms: int | None = None

    def handle(self, body: Body, listener: str, is_wanted: Callable[[], bool], answer: Callable[[Body], None]) -> None:
        if body["transactional_id"] is not None:
            answer({"error_code": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED})
        elif len(self._waiting) >= WAITING_MAX:
            answer(ASK_AGAIN)
        else:
            self._waiting.append(_Asker(listener=listener, is_wanted=is_wanted, answer=answer))
            self.after_step()

    def after_step(self) -> None:
        """After a step: there may be another leader."""
        while self._waiting and not self._waiting[0].is_wanted() and not self._is_asking:
            self._waiting.popleft()
        if not self._waiting:
            return
        status = self._topics.status()
        if status.leads:
            self._hang_up()
            while self._waiting:
                self._answer({"producer_id": self._states.issue(status.epoch), "producer_epoch": 0})
            return
        listener = self._waiting[0].listener
        leader_id, _ = self._topics.leader(listener)
        endpoint = self._topics.nodes(listener).get(NodeId(leader_id))
        if endpoint is None:
            self._give_up()
            return
        if self._link is None or self._link[1] != endpoint:
            self._hang_up()
            self._dial(endpoint)
            # `poll` sets the deadline, since it knows the time.
            self._ports.wake_at(AT_ONCE_MS)
        elif self._link[2].is_ready:
            self._ports.send(self._link[0], self._link[2].ask_body(ApiKey.INIT_PRODUCER_ID, QUESTION))
            self._is_asking = True

    def poll(self, mono_ms: int) -> None:
        if not self._waiting:
            self._deadline_ms = None
        elif self._deadline_ms is None:
            self._deadline_ms = mono_ms + self._topics.config.raft.request_timeout_ms
        elif self._deadline_ms <= mono_ms:
            self._give_up()

    @property
    def next_deadline_ms(self) -> int | None:
        """When `poll` has something to do (mono ms)."""
        if not self._waiting:
            return None
        return AT_ONCE_MS if self._deadline_ms is None else self._deadline_ms

    def _ready(self, connection: ConnectionId, wire: DialedConnection) -> None:
        del connection, wire
        self.after_step()

    def _answered(self, wire: DialedConnection, data: Buffer) -> None:
        answer = wire.answered_body(data)
        self._is_asking = False
        self._deadline_ms = None
        ids = {key: answer[key] for key in ("producer_id", "producer_epoch")}
        self._answer(ASK_AGAIN if answer["error_code"] else ids)
        self.after_step()

    def _failed(self) -> None:
        self._is_asking = False
        self._deadline_ms = None
        while self._waiting:
            self._answer(ASK_AGAIN)

    def _answer(self, body: Body) -> None:
        self._waiting.popleft().answer(body)

    def _give_up(self) -> None:
        self._hang_up()
        self._failed()

    def _hang_up(self) -> None:
        super()._hang_up()
        self._is_asking = False
        self._deadline_ms = None

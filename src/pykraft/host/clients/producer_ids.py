"""InitProducerId: the leader issues an id; every other node asks the leader for one and passes it on.

A producer asks any node, and Java's asks the node that it is connected to again and again. So a follower has to answer
with an id, as each of Kafka's brokers can. It asks over one connection to the leader's endpoint on the client's own
listener, for one id at a time. Whoever cannot be answered, because nobody leads or the leader does not answer, gets
COORDINATOR_LOAD_IN_PROGRESS, as from Kafka's brokers that wait for a block of ids: every client asks again after that.

A leader that was asked by mistake passes the question on to its own leader. Each node on the way knows a later epoch
than the one before, so no question goes round in a circle. Invariant: at most WAITING_MAX clients wait, and all of them
are told to ask again when no answer has come for a request timeout.

Source: KIP-98; Kafka's ``ProducerIdManager``, ``RPCProducerIdManager``; ours (ADR 074).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.host.clients.producer_states import ProducerStates
from pykraft.host.clients.topics import ClientTopics
from pykraft.host.ports import AT_ONCE_MS, ConnectionId, Ports
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.rpc.connection import DialedConnection
from pykraft.types import Buffer, Endpoint, NodeId

WAITING_MAX: Final = 1_000
"""Clients of a follower that may wait for an id at one time."""
ASK_AGAIN: Final[Body] = {"error_code": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
QUESTION: Final[Body] = {"transactional_id": None, "transaction_timeout_ms": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asker:
    """One client that waits."""

    listener: str
    is_wanted: Callable[[], bool]
    answer: Callable[[Body], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Link:
    """The connection to the leader."""

    id: ConnectionId
    endpoint: Endpoint
    wire: DialedConnection


class ProducerIds:
    """Issues ids, or fetches them from the leader."""

    def __init__(self, ports: Ports, topics: ClientTopics, states: ProducerStates) -> None:
        self._ports = ports
        self._topics = topics
        self._states = states
        self._waiting: deque[_Asker] = deque()
        self._link: _Link | None = None
        self._is_asking = False
        self._deadline_ms: int | None = None

    def handle(self, body: Body, listener: str, is_wanted: Callable[[], bool], answer: Callable[[Body], None]) -> None:
        """Answer one request, now or later."""
        if body["transactional_id"] is not None:
            answer({"error_code": ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED})
        elif len(self._waiting) >= WAITING_MAX:
            answer(ASK_AGAIN)
        else:
            self._waiting.append(_Asker(listener=listener, is_wanted=is_wanted, answer=answer))
            self.look()

    def look(self) -> None:
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
        if self._link is None or self._link.endpoint != endpoint:
            self._hang_up()
            wire = DialedConnection("pykraft-producer-ids")
            self._link = _Link(id=self._ports.dial(endpoint), endpoint=endpoint, wire=wire)
            # `poll` sets the deadline, since it knows the time.
            self._ports.wake_at(AT_ONCE_MS)
        elif self._link.wire.is_ready:
            self._ask(self._link)

    def poll(self, mono_ms: int) -> None:
        """Advance to this time."""
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

    def owns(self, connection: ConnectionId) -> bool:
        """True for the open connection to the leader."""
        return self._link is not None and self._link.id == connection

    def on_connected(self, connection: ConnectionId) -> None:
        """The dial succeeded."""
        assert self._link is not None
        assert self._link.id == connection
        self._ports.send(self._link.id, self._link.wire.negotiate())

    def on_closed(self, connection: ConnectionId, *, is_refused: bool = False, reason: str = "") -> None:
        """The dial failed, or the connection broke."""
        del connection, is_refused, reason
        self._link = None
        self._give_up()

    def on_frame(self, connection: ConnectionId, data: Buffer) -> None:
        """The leader answered."""
        link = self._link
        assert link is not None
        assert link.id == connection
        try:
            if not link.wire.is_negotiated:
                link.wire.negotiated(data)
            else:
                answer = link.wire.answered_body(data)
                self._is_asking = False
                self._deadline_ms = None
                told = {key: answer[key] for key in ("producer_id", "producer_epoch")}
                self._answer(ASK_AGAIN if answer["error_code"] else told)
            self.look()
        except ProtocolError:
            # Not one of ours, or it serves no clients: Kafka's controllers know other questions only.
            self._give_up()

    def _ask(self, link: _Link) -> None:
        """Ask for the first client's id. Errors: ProtocolError when the leader does not serve that."""
        self._ports.send(link.id, link.wire.ask_body(ApiKey.INIT_PRODUCER_ID, QUESTION))
        self._is_asking = True

    def _answer(self, body: Body) -> None:
        self._waiting.popleft().answer(body)

    def _give_up(self) -> None:
        """Nobody is answered by this connection."""
        self._hang_up()
        while self._waiting:
            self._answer(ASK_AGAIN)

    def _hang_up(self) -> None:
        link, self._link = self._link, None
        self._is_asking = False
        self._deadline_ms = None
        if link is not None:
            self._ports.close(link.id)

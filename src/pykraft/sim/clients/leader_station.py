"""A client of Kafka's protocol that finds the leader and speaks to it, over one connection at a time.

Requests are answered in their order; each has a callback, which is not called when the connection is given up. No fault
cuts its links, but connections break with the node at the other end. Invariant: it never goes back to a leader of an
older epoch.

Source: Kafka's ``NetworkClient``; KIP-1102 (whoever is told nothing asks another bootstrap server).
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import decode_response, encode_request, frame
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.security.principal import ANONYMOUS
from pykraft.sim.facts.facts import Facts
from pykraft.sim.invariants.watch import Watch
from pykraft.sim.scenario.settings import LISTENER

_VERSIONS: Final = {
    ApiKey.METADATA: 9,
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.PRODUCE: 9,
    ApiKey.JOIN_GROUP: 9,
    ApiKey.SYNC_GROUP: 5,
    ApiKey.HEARTBEAT: 4,
    ApiKey.LEAVE_GROUP: 5,
    ApiKey.OFFSET_COMMIT: 9,
    ApiKey.OFFSET_FETCH: 9,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that is not answered yet."""

    api_key: ApiKey
    number: int
    asked_us: int
    then: Callable[[Body], None]


class LeaderStation:
    """A station of the network that is not a node."""

    def __init__(self, facts: Facts, watch: Watch, rng: Random, station_id: int, client_id: str) -> None:
        self.node_id = self.port = station_id
        self.principal = ANONYMOUS
        self._client_id = client_id
        self._facts = facts
        self._watch = watch
        self._rng = rng
        self._topic = next(iter(facts.nodes.values())).config.topic_name
        self._connection: ConnectionId | None = None
        self._target_id = 0
        self._asked: deque[Asked] = deque()
        self._requests = 0
        self._leader_epoch = -1

    @abstractmethod
    def begin(self) -> None:
        """Come to the network, and plan the first turn."""

    @abstractmethod
    def _turn(self) -> None:
        """What it does now and then; it plans its next turn."""

    @abstractmethod
    def _found_leader(self) -> None:
        """The node at the other end of the connection has said that it leads."""

    def accepted(self, connection: ConnectionId) -> None:
        """Never called: nobody dials a client."""
        raise AssertionError(f"somebody dials a client: {connection}")

    def connected(self, connection: ConnectionId) -> None:
        if connection == self._connection:
            body = {"topics": [{"name": self._topic}], "include_topic_authorized_operations": False}
            # `_dial` has noted it.
            self._request(ApiKey.METADATA, self._asked[0].number, body)

    def closed(self, connection: ConnectionId, *, is_refused: bool = False) -> None:
        """The connection broke: nothing that was asked on it will be answered."""
        del is_refused
        if connection == self._connection:
            self._lose()

    def received(self, connection: ConnectionId, frame: bytes) -> None:
        if connection != self._connection:
            return
        self._watch.trace.absorb(frame)
        asked = self._asked.popleft()
        number, body = decode_response(asked.api_key, _VERSIONS[asked.api_key], frame)
        assert number == asked.number, "answers come in the order of the requests"
        asked.then(body)

    def _leader_told(self, body: Body) -> None:
        """Go on if this node leads, and no later epoch is known; otherwise ask another node."""
        [topic] = body["topics"]
        [part] = topic["partitions"]
        leader_id, epoch = part["leader_id"], part["leader_epoch"]
        if leader_id == self._target_id and epoch >= self._leader_epoch:
            self._leader_epoch = epoch
            self._found_leader()
            return
        self._hang_up()
        if leader_id in self._facts.nodes and epoch >= self._leader_epoch:
            self._target_id = leader_id
            self._dial(is_known=True)

    def _dial(self, *, is_known: bool = False) -> None:
        if not is_known:
            self._target_id = self._rng.choice([*self._facts.nodes])
        endpoint = self._facts.nodes[self._target_id].config.advertised_listeners.get(LISTENER)
        assert endpoint is not None
        self._connection = self._facts.network.dial(self, endpoint)
        # A dial may never be answered; the time of this request ends it.
        self._note(ApiKey.METADATA, self._leader_told)

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._facts.network.close(self._connection)
            self._lose()

    def _lose(self) -> None:
        self._connection = None
        self._asked.clear()

    def _ask(self, api_key: ApiKey, body: Body, then: Callable[[Body], None]) -> None:
        self._request(api_key, self._note(api_key, then), body)

    def _note(self, api_key: ApiKey, then: Callable[[Body], None]) -> int:
        self._requests += 1
        now_us = self._facts.clock.now_us
        self._asked.append(Asked(api_key=api_key, number=self._requests, asked_us=now_us, then=then))
        return self._requests

    def _request(self, api_key: ApiKey, number: int, body: Body) -> None:
        assert self._connection is not None
        request = encode_request(api_key, _VERSIONS[api_key], number, self._client_id, body)
        self._facts.network.send(self._connection, frame(request))

    def _later(self, delay_us: int) -> None:
        self._facts.clock.after(delay_us, self._turn)

"""Where static voters serve clients: a follower asks the leader, to whom each voter has told its endpoints.

``controller.quorum.voters`` has one endpoint of each voter. At kraft.version 0 every voter tells each new leader all of
its endpoints (UpdateRaftVoter), but the log has none of them. So a follower whose listener for clients is another one
asks the leader with DescribeQuorum, on a connection for this one question: at every new leader, and again, less and
less often, while the endpoint of a voter is missing. Invariant: only endpoints of voters are kept, and they are kept
across elections, so that a new leader is found at once.

Source: KIP-853 (UpdateRaftVoter, the nodes of DescribeQuorum); ours (ADR 082).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pykraft.config import NodeConfig
from pykraft.core.messages import DescribeQuorumRequest, DescribeQuorumResponse
from pykraft.core.status import Status
from pykraft.errors import ProtocolError
from pykraft.host.ports import AT_ONCE_MS, ConnectionId, Ports
from pykraft.rpc.connection import DialedConnection
from pykraft.rpc.context import RpcContext
from pykraft.types import Buffer, Listeners, NodeId, Voter, VoterSet

WAIT_MIN_MS: Final = 1_000
WAIT_MAX_MS: Final = 30_000
"""Between two questions; it doubles from the shortest to the longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Link:
    id: ConnectionId
    wire: DialedConnection


class VoterEndpoints:
    """The endpoints of static voters, by id."""

    def __init__(self, ports: Ports, config: NodeConfig) -> None:
        self._ports = ports
        self._config = config
        self._context = RpcContext.of(config)
        self._known: dict[NodeId, Listeners] = {}
        self._status = Status()
        self._asked_leader: tuple[int, NodeId] | None = None
        self._wait_ms = WAIT_MIN_MS
        self._next_ms: int | None = None
        self._link: _Link | None = None

    @property
    def known(self) -> Mapping[NodeId, Listeners]:
        """What voters told a leader of their endpoints."""
        return self._known

    def look(self, status: Status) -> None:
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
        """Advance to this time."""
        if self._next_ms is None or self._next_ms > mono_ms:
            return
        # An unanswered question is void.
        self._hang_up()
        leader = self._status.serving_leader
        endpoint = None if leader is None else leader[1].get(self._config.default_listener)
        if endpoint is not None:
            self._link = _Link(id=self._ports.dial(endpoint), wire=DialedConnection("pykraft-voter-endpoints"))
        self._next_ms = mono_ms + self._wait_ms
        self._wait_ms = min(2 * self._wait_ms, WAIT_MAX_MS)

    @property
    def next_deadline_ms(self) -> int | None:
        """When `poll` has something to do (mono ms)."""
        return self._next_ms

    def owns(self, connection: ConnectionId) -> bool:
        """True for the open connection to the leader."""
        return self._link is not None and self._link.id == connection

    def on_connected(self, connection: ConnectionId) -> None:
        """The dial succeeded."""
        assert self._link is not None
        self._ports.send(connection, self._link.wire.negotiate())

    def on_closed(self, connection: ConnectionId, *, is_refused: bool = False, reason: str = "") -> None:
        """The dial failed, or the connection broke: the leader is asked again later."""
        del connection, is_refused, reason
        self._link = None

    def on_frame(self, connection: ConnectionId, data: Buffer) -> None:
        """The leader answered."""
        assert self._link is not None
        wire = self._link.wire
        try:
            if not wire.is_negotiated:
                wire.negotiated(data)
                self._ports.send(connection, wire.ask(DescribeQuorumRequest(), self._context))
                return
            answer = wire.answered(data, self._context).message
        except ProtocolError:
            # It is asked again later.
            self._hang_up()
            return
        self._hang_up()
        if isinstance(answer, DescribeQuorumResponse):
            self._keep(answer.nodes)
        if not self._lacks_any(self._status.voters, self._known):
            self._next_ms = None

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

    def _hang_up(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            self._ports.close(link.id)

"""Somebody who reaches the port and is not a replica: sends requests, and answers nodes that take it for a leader.

No fault cuts its links. It speaks the protocol correctly; what it says is decided in `pykraft.sim.faults.stranger`.

Source: ours; docs/trust.md says what whoever reaches the port can do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from pykraft.core.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchSnapshotRequest,
    Request,
    Response,
    UpdateVoterRequest,
    VoteRequest,
)
from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import decode_request_header, encode_response
from pykraft.protocol.frame import frame as framed
from pykraft.protocol.messages import API_VERSIONS, ApiKey
from pykraft.rpc import api_versions, codec
from pykraft.rpc.context import Refusal
from pykraft.sim.facts.claims import STRANGER_ID
from pykraft.sim.facts.facts import Facts
from pykraft.sim.invariants.watch import Watch
from pykraft.sim.scenario.settings import LISTENER, rpc_context
from pykraft.types import Buffer, Endpoint, Listeners, NodeId, VersionRange

_VERSIONS: Final[Mapping[type[Request], int]] = {
    VoteRequest: 2,
    BeginQuorumEpochRequest: 1,
    EndQuorumEpochRequest: 1,
    FetchRequest: 17,
    FetchSnapshotRequest: 1,
    UpdateVoterRequest: 0,
}
STRANGER_LISTENERS: Final = Listeners(((LISTENER, Endpoint("stranger", STRANGER_ID)),))
"""The endpoint that a stranger claims, where it really listens."""
STRANGER_LEVELS: Final = VersionRange(0, 2)
"""The levels of kraft.version that it supports: no voter of a world has the same."""

StrangerAnswer: TypeAlias = tuple[Response, "Buffer"]
"""An answer, with its records."""


class Stranger:
    """A station of the network that is not a node.

    ``answer`` returns the answer to a request, None for none; ``levels`` are those of kraft.version that it claims.
    """

    def __init__(
        self,
        facts: Facts,
        watch: Watch,
        answer: Callable[[Request], StrangerAnswer | None],
        *,
        node_id: int = STRANGER_ID,
        levels: VersionRange = STRANGER_LEVELS,
    ) -> None:
        self.node_id = self.port = node_id
        self._levels = levels
        self._facts = facts
        self._watch = watch
        self._answer = answer
        self._asked: dict[ConnectionId, Request] = {}
        self._accepted: set[ConnectionId] = set()
        self._context = rpc_context(next(iter(facts.nodes.values())).config)
        facts.network.attach(self)

    def ask(self, node_id: NodeId, message: Request) -> ConnectionId:
        """Send this to a node at its present address; the answer is ignored."""
        endpoint = self._facts.nodes[int(node_id)].config.advertised_listeners.get(LISTENER)
        assert endpoint is not None
        connection = self._facts.network.dial(self, endpoint)
        self._asked[connection] = message
        return connection

    def hang_up(self, connection: ConnectionId) -> None:
        """Close this connection without waiting for an answer."""
        self._asked.pop(connection, None)
        self._facts.network.close(connection)

    def leave(self) -> None:
        """Close all connections and stop listening."""
        for connection in (*self._asked, *sorted(self._accepted)):
            self._facts.network.close(connection)
        self._asked.clear()
        self._accepted.clear()
        self._facts.network.detach(self)

    def accepted(self, connection: ConnectionId) -> None:
        """A node takes it for a leader and connects."""
        self._accepted.add(connection)

    def connected(self, connection: ConnectionId) -> None:
        """Send the request, unless the connection was given up."""
        message = self._asked.get(connection)
        if message is not None:
            request = codec.encode_request(message, _VERSIONS[type(message)], 1, "stranger", self._context)
            self._facts.network.send(connection, framed(request))

    def closed(self, connection: ConnectionId, *, is_refused: bool = False) -> None:
        """The connection is closed."""
        del is_refused
        self._asked.pop(connection, None)
        self._accepted.discard(connection)

    def received(self, connection: ConnectionId, frame: bytes) -> None:
        """An answer, or a request of a node that takes it for a leader."""
        self._watch.trace.absorb(frame)
        if connection not in self._accepted:
            self.hang_up(connection)
            return
        header = decode_request_header(frame)
        if header.api_key == ApiKey.API_VERSIONS:
            body = api_versions.response_to_wire(header.api_version, API_VERSIONS, self._levels)
            answer = encode_response(ApiKey.API_VERSIONS, header.api_version, header.correlation_id, body)
            self._facts.network.send(connection, framed(answer))
            return
        message = codec.decode_request(header, frame, self._context)
        assert not isinstance(message, Refusal)
        found = self._answer(message)
        if found is not None:
            self._facts.network.send(connection, framed(codec.encode_answer(header, found[0], self._context, found[1])))

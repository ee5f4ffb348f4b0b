"""An operator of the quorum: asks the leader to add and to remove voters, over the network, as any client would.

Its connections are never cut, but they break with the process at the other end, and a request may lie with a process
that stands still, and be carried out when nobody waits for the answer any more. So a request is open until it is
answered, or until the process that it went to is no more (`Asked.is_open`).

Source: KIP-853 (``kafka-metadata-quorum add-controller`` and ``remove-controller``); Kafka's message definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pykraft.core.messages import AddVoterRequest, ChangeVoterResponse, RemoveVoterRequest
from pykraft.errors import ErrorCode
from pykraft.host.ports import ConnectionId
from pykraft.protocol.frame import frame as framed
from pykraft.rpc import codec
from pykraft.sim.scenario.settings import LISTENER, rpc_context

if TYPE_CHECKING:
    from pykraft.sim.machine.node import Process
    from pykraft.sim.run.world import World

_VERSIONS: Final[Mapping[type[AddVoterRequest | RemoveVoterRequest], int]] = {AddVoterRequest: 1, RemoveVoterRequest: 0}


@dataclass(slots=True, kw_only=True, eq=False)
class Asked:
    """One request and what came of it."""

    message: AddVoterRequest | RemoveVoterRequest
    process: Process
    then: Callable[[Asked], None]
    since: int
    """What was committed when it was asked (exclusive): it is carried out above that, if ever."""
    answer: ErrorCode | None = None
    """None while nobody knows, and for ever when the connection broke."""

    @property
    def is_open(self) -> bool:
        """True while it may still be carried out."""
        return self.answer is None and self.process.is_running


class Admin:
    """A station of the network that is no node."""

    node_id = 0
    port = 0

    def __init__(self, world: World) -> None:
        self._world = world
        self._asked: dict[ConnectionId, Asked] = {}
        self._context = rpc_context(next(iter(world.nodes.values())).config)
        world.network.attach(self)

    def ask(
        self, process: Process, message: AddVoterRequest | RemoveVoterRequest, then: Callable[[Asked], None]
    ) -> Asked:
        """Ask the node of this process; ``then`` is called with the answer, or when the connection breaks."""
        asked = Asked(message=message, process=process, then=then, since=self._world.committed.end_offset)
        endpoint = self._world.nodes[process.node_id].config.advertised_listeners.get(LISTENER)
        assert endpoint is not None
        self._asked[self._world.network.dial(self, endpoint)] = asked
        return asked

    def accepted(self, connection: ConnectionId) -> None:
        """Nobody dials it."""
        raise AssertionError(f"somebody dials the operator: {connection}")

    def connected(self, connection: ConnectionId) -> None:
        """Ask."""
        asked = self._asked[connection]
        self._world.watch.asked(asked)
        message = asked.message
        request = codec.encode_request(message, _VERSIONS[type(message)], 1, "operator", self._context)
        self._world.network.send(connection, framed(request))

    def closed(self, connection: ConnectionId) -> None:
        """Nobody will know what came of it."""
        asked = self._asked.pop(connection, None)
        if asked is not None:
            self._world.watch.answered(asked)
            asked.then(asked)

    def received(self, connection: ConnectionId, frame: bytes) -> None:
        """The answer."""
        asked = self._asked.pop(connection)
        key, version = codec.api_key_of(asked.message), _VERSIONS[type(asked.message)]
        answer = codec.decode_answer(key, version, frame, self._context).message
        assert isinstance(answer, ChangeVoterResponse), f"the operator is answered {answer}"
        asked.answer = ErrorCode(answer.error)
        self._world.trace.absorb(frame)
        self._world.network.close(connection)
        self._world.watch.answered(asked)
        asked.then(asked)

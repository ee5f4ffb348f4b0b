"""An operator of the quorum: asks the leader over the network to add and remove voters, as any client would.

No fault cuts its connections, but they break with the process at the other end. A paused process may hold a request and
carry it out when nobody waits for the answer any more. So a request is open until it is answered, or until the process
that received it has ended (`VoterRequest.is_open`).

Source: KIP-853 (``kafka-metadata-quorum add-controller`` and ``remove-controller``); Kafka's message definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from pykraft.core.messages import AddVoterRequest, ChangeVoterResponse, RemoveVoterRequest
from pykraft.errors import ErrorCode
from pykraft.host.ports import ConnectionId
from pykraft.protocol.frame import frame as framed
from pykraft.rpc import codec
from pykraft.sim.facts.facts import Facts
from pykraft.sim.facts.members import VoterRequest
from pykraft.sim.invariants.watch import Watch
from pykraft.sim.machine.node import Process
from pykraft.sim.scenario.settings import LISTENER, rpc_context

_VERSIONS: Final[Mapping[type[AddVoterRequest | RemoveVoterRequest], int]] = {AddVoterRequest: 1, RemoveVoterRequest: 0}


class OperatorStation:
    """A station of the network that is not a node."""

    node_id = 0
    port = 0

    def __init__(self, facts: Facts, watch: Watch) -> None:
        self._facts = facts
        self._watch = watch
        self._asked: dict[ConnectionId, VoterRequest] = {}
        self._context = rpc_context(next(iter(facts.nodes.values())).config)
        facts.network.attach(self)

    def ask(
        self, process: Process, message: AddVoterRequest | RemoveVoterRequest, then: Callable[[VoterRequest], None]
    ) -> VoterRequest:
        """Send a request to this process; ``then`` is called with the answer, or when the connection breaks."""
        asked = VoterRequest(message=message, process=process, then=then, since=self._facts.committed.end_offset)
        endpoint = self._facts.nodes[process.node_id].config.advertised_listeners.get(LISTENER)
        assert endpoint is not None
        self._asked[self._facts.network.dial(self, endpoint)] = asked
        return asked

    def accepted(self, connection: ConnectionId) -> None:
        """Never called: nobody dials an operator."""
        raise AssertionError(f"somebody dials the operator: {connection}")

    def connected(self, connection: ConnectionId) -> None:
        """Send the request."""
        asked = self._asked[connection]
        self._watch.asked(asked)
        message = asked.message
        request = codec.encode_request(message, _VERSIONS[type(message)], 1, "operator", self._context)
        self._facts.network.send(connection, framed(request))

    def closed(self, connection: ConnectionId, *, is_refused: bool = False) -> None:
        """The connection broke: nobody will know whether the request was carried out."""
        del is_refused
        asked = self._asked.pop(connection, None)
        if asked is not None:
            self._watch.answered(asked)
            asked.then(asked)

    def received(self, connection: ConnectionId, frame: bytes) -> None:
        """The answer arrived."""
        asked = self._asked.pop(connection)
        key, version = codec.api_key_of(asked.message), _VERSIONS[type(asked.message)]
        answer = codec.decode_answer(key, version, frame, self._context).message
        assert isinstance(answer, ChangeVoterResponse), f"the operator is answered {answer}"
        asked.answer = ErrorCode(answer.error)
        self._watch.trace.absorb(frame)
        self._facts.network.close(connection)
        self._watch.answered(asked)
        asked.then(asked)

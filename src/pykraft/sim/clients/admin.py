"""An operator of the quorum: asks the leader over the network to add and remove voters, as any client would.

No fault cuts its connections, but they break with the process at the other end. A paused process may hold a request and
carry it out when nobody waits for the answer any more. So a request is open until it is answered, or until the process
that received it has ended (`VoterRequest.is_open`).

A client prepares a few appends in a row. Then it schedules them, or goes on with an append that is not prepared, which
schedules them too. Leaders have small buffers in these worlds, so prepared appends often fill them.

Source: KIP-853 (``kafka-metadata-quorum add-controller`` and ``remove-controller``); Kafka's message definitions;
Kafka's ``RaftClient.prepareAppend`` and ``schedulePreparedAppend``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Final

from pykraft.config import NodeConfig
from pykraft.core.messages import AddVoterRequest, ChangeVoterResponse, RemoveVoterRequest
from pykraft.errors import ErrorCode
from pykraft.host.ports import ConnectionId
from pykraft.protocol.frame import frame as framed
from pykraft.rpc import codec
from pykraft.sim.clients.witness import Witness
from pykraft.sim.facts.facts import Facts
from pykraft.sim.facts.voter_requests import VoterRequest
from pykraft.sim.machine.node import Process, SimulatedNode
from pykraft.sim.scenario.settings import LISTENER, rpc_context

BEGIN_PROBABILITY = 0.1
"""Probability that after a call that is not prepared the next ones are."""
SCHEDULE_PROBABILITIES = (0.0, 0.3)
"""A world draws one: the probability that a client schedules its row of prepared appends at the end."""
LENGTHS = (1, 3, 10, 40)
BATCH_SIZE_BYTES_MAX = 2_048
"""Each proposal of the workload fits into one batch of this size."""
BATCHES_MAX = (1, 2, 10)


def with_small_buffers(configs: Sequence[NodeConfig], rng: Random) -> list[NodeConfig]:
    """These configurations with one draw of how much a leader accumulates."""
    batches_max = rng.choice(BATCHES_MAX)
    return [
        replace(
            config,
            raft=replace(config.raft, batch_size_bytes_max=BATCH_SIZE_BYTES_MAX, accumulated_batches_max=batches_max),
        )
        for config in configs
    ]


class PreparedAppends:
    """The prepared appends of one world; none when ``rng`` is None."""

    def __init__(self, rng: Random | None) -> None:
        self._rng = rng
        self._schedule_probability = rng.choice(SCHEDULE_PROBABILITIES) if rng is not None else 0.0
        self._left: dict[int, int] = {}

    def is_next(self, node: SimulatedNode) -> bool:
        """Whether the next append at this leader is only prepared. At the end of a row it may schedule them."""
        if self._rng is None:
            return False
        left = self._left.pop(int(node.node_id), None)
        if left:
            self._left[int(node.node_id)] = left - 1
            return True
        if left == 0 and node.host is not None and self._rng.random() < self._schedule_probability:
            node.host.schedule_prepared(node.clock.instant)
        if self._rng.random() >= BEGIN_PROBABILITY:
            return False
        self._left[int(node.node_id)] = self._rng.choice(LENGTHS) - 1
        return True


_VERSIONS: Final[Mapping[type[AddVoterRequest | RemoveVoterRequest], int]] = {AddVoterRequest: 1, RemoveVoterRequest: 0}


class OperatorStation:
    """A station of the network that is not a node."""

    node_id = 0
    port = 0

    def __init__(self, facts: Facts, witness: Witness) -> None:
        self._facts = facts
        self._witness = witness
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
        self._witness.watch.asked(asked)
        message = asked.message
        request = codec.encode_request(message, _VERSIONS[type(message)], 1, "operator", self._context)
        self._facts.network.send(connection, framed(request))

    def closed(self, connection: ConnectionId, *, is_refused: bool = False) -> None:
        """The connection broke: nobody will know whether the request was carried out."""
        del is_refused
        asked = self._asked.pop(connection, None)
        if asked is not None:
            self._witness.watch.answered(asked)
            asked.then(asked)

    def received(self, connection: ConnectionId, frame: bytes) -> None:
        """The answer arrived."""
        asked = self._asked.pop(connection)
        key, version = codec.api_key_of(asked.message), _VERSIONS[type(asked.message)]
        answer = codec.decode_answer(key, version, frame, self._context).message
        assert isinstance(answer, ChangeVoterResponse), f"the operator is answered {answer}"
        asked.answer = ErrorCode(answer.error)
        self._witness.absorb(frame)
        self._facts.network.close(connection)
        self._witness.watch.answered(asked)
        asked.then(asked)

"""What clients of the leader share: one connection to the node that probably leads, and tries until a deadline.

Invariant: a connection is kept only after a whole answer. Whoever asks takes it away and puts it back; if the request
fails, nobody uses that connection again. The subclasses know what they ask, and what an answer means.

Source: Kafka's ``NetworkClient``; KIP-951 (an answer names the leader).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Self, TypeVar

from pykraft.client.remote.connection import Caller, Connection, connect
from pykraft.client.remote.leader_fetch import PATIENCE, Patience
from pykraft.client.remote.leader_search import LeaderSearch
from pykraft.client.remote.no_leader import voters_at, whom_it_names
from pykraft.config import TEST_TOPIC_ID, TEST_TOPIC_NAME
from pykraft.errors import UnreachableError
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.rpc.context import RpcContext
from pykraft.server.names import Names
from pykraft.types import Endpoint, Epoch

T = TypeVar("T")
TRIES_WITHOUT_PAUSE: Final = 2


class LeaderClient:
    """Use it in ``async with``, within one event loop; one request at a time."""

    def __init__(self, bootstrap: Sequence[Endpoint], *, client_id: str, patience: Patience = PATIENCE) -> None:
        """``bootstrap`` has some nodes of the quorum."""
        self._search = LeaderSearch(bootstrap)
        self._client_id = client_id
        self._patience = patience
        self._names: Names | None = None
        self._connection: Connection | None = None
        self._was_heard = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _until_done(self, try_once: Callable[[], Awaitable[T | None]]) -> T:
        """Try until there is a result, with a pause after the first few tries.

        Errors: QuorumUnavailableError when the time is over; those of ``try_once``.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._patience.timeout_ms / 1_000
        tries = 0
        while True:
            if tries and loop.time() >= deadline_s:
                raise self._search.asked.unavailable(self._patience.timeout_ms)
            if tries > TRIES_WITHOUT_PAUSE:
                self._patience.on_waiting(self._search.asked.story)
                await asyncio.sleep(self._patience.retry_backoff_ms / 1_000)
            tries += 1
            result = await try_once()
            if result is not None:
                if tries > TRIES_WITHOUT_PAUSE:
                    self._patience.on_waiting(None)
                return result
            if tries > TRIES_WITHOUT_PAUSE:
                await self._learn_voters()

    async def _reached(self) -> Connection | None:
        """A connection to the next node, which is the caller's until it puts it back; None if that node is not there.

        Errors: QuorumUnavailableError when no node has ever answered: fail at once instead of waiting for an election.
        """
        node = self._search.whom
        try:
            return await self._connected(node)
        except UnreachableError as error:
            self._search.failed(node, error.problem)
            if self._search.is_nobody_there and not self._was_heard:
                raise self._search.asked.silent() from None
            return None

    async def _ask(self, connection: Connection, key: ApiKey, body: Body) -> Body:
        """Errors: UnreachableError, after which nobody uses this connection."""
        self._connection = None
        try:
            answer = await connection.ask_body(key, body, timeout_ms=self._patience.request_timeout_ms)
        except UnreachableError as error:
            self._search.failed(connection.endpoint, error.problem)
            raise
        self._connection = connection
        self._was_heard = True
        return answer

    def _redirected(self, node: Endpoint, answer: Body, part: Body) -> None:
        """This node answered that it does not lead, and may name the leader in its part of the answer."""
        leader_id, epoch = part["current_leader"]["leader_id"], part["current_leader"]["leader_epoch"]
        named: list[Any] = answer["node_endpoints"]
        endpoints = {each["node_id"]: Endpoint(each["host"], each["port"]) for each in named}
        leader = endpoints.get(leader_id) if leader_id >= 0 else None
        known = leader if leader is not None and leader.can_be_dialed else None
        self._search.redirected(node, Epoch(max(epoch, 0)), known, whom_it_names(leader_id))

    async def _learn_voters(self) -> None:
        """In trouble, ask the node that answered last for the voters: any may lead, and the error names each."""
        if self._connection is not None:
            with suppress(UnreachableError):
                timeout_ms = self._patience.request_timeout_ms
                told = await voters_at(self._connection, timeout_ms=timeout_ms)
                self._search.told(self._connection.endpoint, *told)

    async def _connected(self, node: Endpoint) -> Connection:
        """The open connection if it goes to that node and still stands, or a new one. Errors: UnreachableError."""
        connection, self._connection = self._connection, None
        if connection is not None and (connection.endpoint != node or not connection.is_open):
            await connection.close()
            connection = None
        if connection is None:
            if self._names is None:
                self._names = Names(asyncio.get_running_loop())
            context = RpcContext(
                cluster_id=None, topic_name=TEST_TOPIC_NAME, topic_id=TEST_TOPIC_ID, default_listener="LEADER"
            )
            resolved = self._search.asked.resolved
            caller = Caller(client_id=self._client_id, context=context, names=self._names, resolved=resolved)
            connection = await connect(node, caller, timeout_ms=self._patience.request_timeout_ms)
        return connection

"""Appends numbered batches to a live quorum, each exactly once however often it is sent: an idempotent producer.

The caller numbers its batches (`pykraft.protocol.batch.number_batch`) under a producer id that `issue_id` gives, and
keeps both, so that another process may go on with the same numbers. Invariants: a batch is sent again, byte for byte,
until a node answers that it is committed or why it never will be; the leader recognizes what it has. One batch is
under way at a time. A connection is kept only after a whole answer: if a request fails, nobody uses it again.

Source: KIP-98, KIP-360, KIP-951; Kafka's ``Sender``, ``TransactionManager`` and ``NetworkClient``; ADR 065, ADR 097.
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
from pykraft.config import METADATA_TOPIC_NAME, TEST_TOPIC_ID, TEST_TOPIC_NAME
from pykraft.errors import (
    ErrorCode,
    ForeignClusterError,
    OutcomeUnknownError,
    QuorumUnavailableError,
    RefusedError,
    UnreachableError,
    UsageError,
    error_name,
)
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.rpc.context import RpcContext
from pykraft.server.binding import Names
from pykraft.types import Buffer, Endpoint, Epoch, Offset

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


SERVES_NO_CLIENTS: Final = "it serves no clients: set pykraft.client.listeners in the properties of each node"
_ALL_ACKS: Final = -1
_TRY_AGAIN: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
_ID_REQUEST: Final[Body] = {"transactional_id": None, "transaction_timeout_ms": 0}
_END_REQUEST: Final[Body] = {
    "replica_id": -1,
    "topics": [{"name": METADATA_TOPIC_NAME, "partitions": [{"partition_index": 0, "timestamp": -1}]}],
}
_CLUSTER_REQUEST: Final[Body] = {"topics": [], "allow_auto_topic_creation": False}


class NumberedAppender(LeaderClient):
    """Use it in ``async with``, within one event loop; one call at a time."""

    def __init__(
        self,
        bootstrap: Sequence[Endpoint],
        *,
        cluster_id: str | None = None,
        client_id: str = "pykraft-numbered-append",
        patience: Patience = PATIENCE,
    ) -> None:
        """``bootstrap`` has some nodes of the quorum; with a cluster id, nodes of another cluster are rejected."""
        super().__init__(bootstrap, client_id=client_id, patience=patience)
        self.cluster_id = cluster_id
        """Of the nodes that answered; None before, and for nodes that have none."""
        self._checked: Connection | None = None
        self._is_unknown = False

    async def issue_id(self) -> int:
        """A new producer id, whose first producer epoch is 0.

        Errors: QuorumUnavailableError, ForeignClusterError; UsageError when nodes serve no clients.
        """

        async def try_once() -> int | None:
            told = await self._told(ApiKey.INIT_PRODUCER_ID, _ID_REQUEST)
            if told is None:
                return None
            node, answer = told
            if answer["error_code"] not in _TRY_AGAIN:
                self._check(answer["error_code"], "a producer id", None)
                return int(answer["producer_id"])
            self._search.failed(node, f"it has no producer id: {error_name(answer['error_code'])}")
            return None

        return await self._until_done(try_once)

    async def end_offset(self) -> Offset:
        """The exclusive end of what is committed, or less while a new leader does not know it yet.

        Errors: as `issue_id`.
        """

        async def try_once() -> Offset | None:
            told = await self._told(ApiKey.LIST_OFFSETS, _END_REQUEST)
            if told is None:
                return None
            node, answer = told
            [part] = answer["topics"][0]["partitions"]
            if part["error_code"] not in _TRY_AGAIN:
                self._check(part["error_code"], "the end of the log", None)
                return Offset(part["offset"])
            self._search.failed(node, error_name(part["error_code"]))
            return None

        return await self._until_done(try_once)

    async def append(self, batch: Buffer) -> Offset:
        """Append one numbered batch; returns its base offset when it is committed.

        Errors: OutcomeUnknownError when the time is over and it may be in the log, QuorumUnavailableError when it is
        not; RefusedError with the leader's reason; ForeignClusterError; UsageError as `issue_id`.
        """
        self._is_unknown = False
        try:
            return await self._until_done(lambda: self._try(batch))
        except QuorumUnavailableError as error:
            if self._is_unknown:
                raise OutcomeUnknownError(f"{error}; the records may be in the log, or not") from error
            raise

    @property
    def was_doubtful(self) -> bool:
        """Whether an answer for the last batch was lost, so that a refusal does not tell whether it is in the log."""
        return self._is_unknown

    async def _try(self, batch: Buffer) -> Offset | None:
        connection = await self._usable()
        if connection is None:
            return None
        topic = {"name": METADATA_TOPIC_NAME, "partition_data": [{"index": 0, "records": batch}]}
        timeout_ms = self._patience.request_timeout_ms
        body = {"transactional_id": None, "acks": _ALL_ACKS, "timeout_ms": timeout_ms, "topic_data": [topic]}
        try:
            answer = await self._ask(connection, ApiKey.PRODUCE, body)
        except UnreachableError:
            self._is_unknown = True
            return None
        return self._judge(connection.endpoint, answer)

    def _judge(self, node: Endpoint, answer: Body) -> Offset | None:
        """What the answer says. Errors: RefusedError."""
        told: list[Any] = [part for topic in answer["responses"] for part in topic["partition_responses"]]
        if len(told) != 1:
            self._is_unknown = True
            self._search.failed(node, f"it answers one append {len(told)} times")
            return None
        [part] = told
        code, text = part["error_code"], part["error_message"]
        if code == ErrorCode.NONE:
            self._search.led(node)
            return Offset(part["base_offset"])
        if code not in _TRY_AGAIN:
            self._check(code, "the append", text)
        if code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._redirected(node, answer, part)
        else:
            # The leader lost its leadership, or is too busy.
            self._is_unknown |= code == ErrorCode.REQUEST_TIMED_OUT
            self._search.failed(node, f"{error_name(code)}: {text}")
        return None

    async def _usable(self) -> Connection | None:
        """A connection to a node of the wanted cluster that serves clients; None if the next node is not one.

        Errors: QuorumUnavailableError, ForeignClusterError; UsageError when no known node serves clients.
        """
        connection = await self._reached()
        if connection is None:
            return None
        node = connection.endpoint
        if not connection.offers_key(ApiKey.INIT_PRODUCER_ID):
            await connection.close()
            is_leader = node == self._search.leader
            self._search.failed(node, SERVES_NO_CLIENTS)
            if is_leader or self._search.is_nobody_there:
                raise UsageError(f"{node}: {SERVES_NO_CLIENTS}")
            return None
        if connection is not self._checked:
            try:
                answer = await self._ask(connection, ApiKey.METADATA, _CLUSTER_REQUEST)
            except UnreachableError:
                return None
            found = answer["cluster_id"]
            if self.cluster_id is not None and found != self.cluster_id:
                raise ForeignClusterError(f"{node} belongs to cluster {found}, not to {self.cluster_id}")
            self.cluster_id, self._checked = found, connection
        return connection

    @staticmethod
    def _check(code: int, what: str, text: str | None) -> None:
        """Errors: RefusedError."""
        if code != ErrorCode.NONE:
            raise RefusedError(what, code, text)

    async def _told(self, key: ApiKey, body: Body) -> tuple[Endpoint, Body] | None:
        """The next node and its answer; None if there is none, and another node may have one. Errors: as `_usable`."""
        connection = await self._usable()
        if connection is None:
            return None
        try:
            return connection.endpoint, await self._ask(connection, key, body)
        except UnreachableError:
            return None

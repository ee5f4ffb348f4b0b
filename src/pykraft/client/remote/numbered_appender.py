"""Appends numbered batches to a live quorum, each exactly once however often it is sent: an idempotent producer.

`NumberedAppender`'s caller numbers its batches (`pykraft.protocol.batch.number_batch`) under a producer id that
`issue_id` gives, and keeps both, so that another process may go on with the same numbers; `Appender` numbers them
itself. Invariants: a batch is sent again, byte for byte, until a node answers that it is committed or why it never will
be; the leader recognizes what it has. One batch is under way at a time. If the time is over before an answer, the
result is an OutcomeUnknownError.

Source: KIP-98, KIP-360, KIP-951; Kafka's ``Sender``, ``TransactionManager`` and ``NetworkClient``; ADR 050, 065, 097.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from pykraft import errors
from pykraft.client.remote.connection import Connection
from pykraft.client.remote.leader_search import PATIENCE, LeaderClient, Patience, whom_it_names
from pykraft.config import METADATA_TOPIC_ID, METADATA_TOPIC_NAME
from pykraft.protocol.batch import number_batch
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.records import encode_batch
from pykraft.protocol.schema import Body
from pykraft.security.settings import IN_THE_CLEAR, Security
from pykraft.types import EPOCH_ZERO, Buffer, Endpoint, Epoch, Offset

SERVES_NO_CLIENTS: Final = "it serves no clients: set pykraft.client.listeners in the properties of each node"
_ALL_ACKS: Final = -1
_TRY_AGAIN: Final = frozenset(
    {
        errors.ErrorCode.NOT_LEADER_OR_FOLLOWER,
        errors.ErrorCode.REQUEST_TIMED_OUT,
        errors.ErrorCode.NOT_ENOUGH_REPLICAS,
        errors.ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        errors.ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        errors.ErrorCode.OFFSET_NOT_AVAILABLE,
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
        security: Security = IN_THE_CLEAR,
    ) -> None:
        """``bootstrap`` has some nodes of the quorum; with a cluster id, nodes of another cluster are rejected."""
        super().__init__(bootstrap, client_id=client_id, patience=patience, security=security)
        self.cluster_id = cluster_id
        """Of the nodes that answered; None before, and for nodes that have none."""
        self._checked: Connection | None = None
        self._is_unknown = False

    async def issue_id(self) -> int:
        """A new producer id, whose first producer epoch is 0.

        Errors: QuorumUnavailableError, ForeignClusterError; UsageError when nodes serve no clients.
        """
        answer = await self._answer(
            ApiKey.INIT_PRODUCER_ID, _ID_REQUEST, lambda body: body, "a producer id", "it has no producer id: "
        )
        return int(answer["producer_id"])

    async def end_offset(self) -> Offset:
        """The exclusive end of what is committed, or less while a new leader does not know it yet.

        Errors: as `issue_id`.
        """
        part = await self._answer(
            ApiKey.LIST_OFFSETS, _END_REQUEST, lambda body: body["topics"][0]["partitions"][0], "the end of the log", ""
        )
        return Offset(part["offset"])

    async def append(self, batch: Buffer) -> Offset:
        """Append one numbered batch; returns its base offset when it is committed.

        Errors: OutcomeUnknownError when the time is over and it may be in the log, QuorumUnavailableError when it is
        not; RefusedError with the leader's reason; ForeignClusterError; UsageError as `issue_id`.
        """
        self._is_unknown = False
        try:
            return await self._until_done(lambda: self._try(batch))
        except errors.QuorumUnavailableError as error:
            if self._is_unknown:
                raise errors.OutcomeUnknownError(f"{error}; the records may be in the log, or not") from error
            raise

    @property
    def was_doubtful(self) -> bool:
        """Whether an answer for the last batch was lost, so that a refusal does not tell whether it is in the log."""
        return self._is_unknown

    async def _try(self, batch: Buffer) -> Offset | None:
        connection = await self._usable()
        partition = {"index": 0, "records": batch}
        topic = {"name": METADATA_TOPIC_NAME, "topic_id": METADATA_TOPIC_ID, "partition_data": [partition]}
        timeout_ms = self._patience.request_timeout_ms
        body = {"transactional_id": None, "acks": _ALL_ACKS, "timeout_ms": timeout_ms, "topic_data": [topic]}
        try:
            answer = await self._ask(connection, ApiKey.PRODUCE, body)
        except errors.UnreachableError:
            self._is_unknown = True
            raise
        return self._judge(connection.endpoint, answer)

    def _judge(self, node: Endpoint, answer: Body) -> Offset | None:
        """The offset; None when the node does not lead. Errors: RefusedError; UnreachableError to try again."""
        partitions: list[Any] = [part for topic in answer["responses"] for part in topic["partition_responses"]]
        if len(partitions) != 1:
            self._is_unknown = True
            raise errors.UnreachableError(node, f"it answers one append {len(partitions)} times")
        [part] = partitions
        code, text = part["error_code"], part["error_message"]
        if code == errors.ErrorCode.NONE:
            self._search.led(node)
            return Offset(part["base_offset"])
        if code not in _TRY_AGAIN:
            raise errors.RefusedError("the append", code, text)
        if code == errors.ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._redirected(node, answer, part)
            return None
        # The leader lost its leadership, or is too busy.
        self._is_unknown |= code == errors.ErrorCode.REQUEST_TIMED_OUT
        raise errors.UnreachableError(node, f"{errors.error_name(code)}: {text}")

    def _redirected(self, node: Endpoint, answer: Body, part: Body) -> None:
        """This node answered that it does not lead, and may name the leader in its part of the answer."""
        leader_id, epoch = part["current_leader"]["leader_id"], part["current_leader"]["leader_epoch"]
        endpoints = {each["node_id"]: Endpoint(each["host"], each["port"]) for each in answer["node_endpoints"]}
        leader = endpoints.get(leader_id) if leader_id >= 0 else None
        known = leader if leader is not None and leader.can_be_dialed else None
        self._search.redirected(node, Epoch(max(epoch, 0)), known, whom_it_names(leader_id))

    async def _usable(self) -> Connection:
        """A connection to the next node, which is of the wanted cluster and serves clients.

        Errors: UnreachableError if it is not; ForeignClusterError; UsageError when no known node serves clients.
        """
        node = self._search.whom
        connection = await self._connected(node)
        self._was_heard = True
        if not connection.offers_key(ApiKey.INIT_PRODUCER_ID):
            await connection.close()
            is_leader = node == self._search.leader
            self._search.failed(node, SERVES_NO_CLIENTS)
            if is_leader or self._search.is_nobody_there:
                raise errors.UsageError(f"{node}: {SERVES_NO_CLIENTS}")
            raise errors.UnreachableError(node, SERVES_NO_CLIENTS)
        if connection is not self._checked:
            answer = await self._ask(connection, ApiKey.METADATA, _CLUSTER_REQUEST)
            cluster_id = answer["cluster_id"]
            if self.cluster_id is not None and cluster_id != self.cluster_id:
                raise errors.ForeignClusterError(f"{node} belongs to cluster {cluster_id}, not to {self.cluster_id}")
            self.cluster_id, self._checked = cluster_id, connection
        return connection

    async def _ask(self, connection: Connection, key: ApiKey, body: Body) -> Body:
        """Errors: UnreachableError, after which nobody uses this connection."""
        self._connection = None
        answer = await connection.ask_body(key, body, timeout_ms=self._patience.request_timeout_ms)
        self._connection, self._was_heard = connection, True
        return answer

    async def _answer(self, key: ApiKey, body: Body, part_of: Callable[[Body], Body], what: str, problem: str) -> Body:
        """The part of an answer that has the error code. Errors: RefusedError; as `issue_id`."""

        async def try_once() -> Body:
            connection = await self._usable()
            part = part_of(await self._ask(connection, key, body))
            code = part["error_code"]
            if code in _TRY_AGAIN:
                raise errors.UnreachableError(connection.endpoint, f"{problem}{errors.error_name(code)}")
            if code:
                raise errors.RefusedError(what, code, None)
            return part

        return await self._until_done(try_once)


BATCH_SIZE_BYTES_MAX: Final = 60_000
"""Most bytes of the records of one append: a node accepts requests of 64 KiB."""
RECORD_OVERHEAD_BYTES_MAX: Final = 20
"""Most bytes that a batch adds to a value: three varints and four single bytes."""
_SEQUENCES: Final = 2**31


class Appender(NumberedAppender):
    """Use it in ``async with``, within one event loop; one append at a time."""

    def __init__(
        self,
        bootstrap: Sequence[Endpoint],
        *,
        client_id: str = "pykraft-append",
        patience: Patience = PATIENCE,
        security: Security = IN_THE_CLEAR,
    ) -> None:
        """``bootstrap`` has some nodes of the quorum."""
        super().__init__(bootstrap, client_id=client_id, patience=patience, security=security)
        self._producer_id: int | None = None
        self._next_sequence = 0

    async def append_values(self, values: Sequence[bytes]) -> Offset:
        """Append these values as one atomic batch; returns the offset of the first when they are committed.

        Errors: OutcomeUnknownError; for all others nothing was appended: QuorumUnavailableError when no leader was
        found within the time, UsageError when nodes serve no clients, or for too large or empty records, RefusedError
        with the leader's reason.
        """
        size_bytes = sum(map(len, values)) + RECORD_OVERHEAD_BYTES_MAX * len(values)
        if not values or not all(values) or size_bytes > BATCH_SIZE_BYTES_MAX:
            raise errors.UsageError(
                f"an append has at least one record, a record at least one byte, and all together at most "
                f"{BATCH_SIZE_BYTES_MAX} bytes with {RECORD_OVERHEAD_BYTES_MAX} added for each record"
            )
        if self._producer_id is None:
            self._producer_id = await self.issue_id()
        now_ms = int(time.time() * 1_000)
        batch = bytearray(encode_batch(values, base_offset=Offset(0), epoch=EPOCH_ZERO, timestamp_ms=now_ms).data)
        number_batch(batch, producer_id=self._producer_id, producer_epoch=0, base_sequence=self._next_sequence)
        try:
            offset = await self.append(batch)
        except (errors.OutcomeUnknownError, errors.RefusedError) as error:
            # A refusal after a lost answer does not say what became of the batch that got none.
            if not self.was_doubtful:
                raise
            # Under the number of a batch that may be in the log, the leader would take other records for that one.
            self._producer_id, self._next_sequence = None, 0
            raise errors.OutcomeUnknownError(str(error), count=len(values)) from error
        self._next_sequence = (self._next_sequence + len(values)) % _SEQUENCES
        return offset

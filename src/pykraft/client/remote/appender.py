"""Appends records to a live quorum from outside: one batch at a time, at the leader, with Kafka's Produce.

Invariant: records are sent again only if they are certainly not in the log: no connection was made, or a node answered
that it did not append them. If a request was sent and no answer decides it, the result is an OutcomeUnknownError.

Source: Kafka's ``KafkaProducer``; KIP-951 (the answer names the leader); ours (ADR 050).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Final

from pykraft.client.remote.connection import Caller, Connection, connect
from pykraft.client.remote.leader_fetch import PATIENCE, Patience
from pykraft.client.remote.leader_search import LeaderSearch
from pykraft.client.remote.no_leader import voters_at, whom_it_names
from pykraft.config import TEST_TOPIC_ID, TEST_TOPIC_NAME
from pykraft.errors import (
    ErrorCode,
    OutcomeUnknownError,
    RefusedError,
    UnreachableError,
    UsageError,
)
from pykraft.host.producers import Committed
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.records import encode_batch
from pykraft.protocol.schema import Body
from pykraft.rpc.context import RpcContext
from pykraft.server.names import Names
from pykraft.types import EPOCH_ZERO, Endpoint, Epoch, Offset

BATCH_SIZE_BYTES_MAX: Final = 60_000
"""Most bytes of the records of one append: a node accepts requests of 64 KiB."""
RECORD_OVERHEAD_BYTES_MAX: Final = 20
"""Most bytes that a batch adds to a value: three varints and four single bytes."""
TRIES_WITHOUT_PAUSE: Final = 2
_ALL_ACKS: Final = -1
_TRY_AGAIN: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.THROTTLING_QUOTA_EXCEEDED})
"""Answers of a pykraft node that has not appended the records and never will."""


class Appender(AbstractAsyncContextManager["Appender", None]):
    """Use it in ``async with``, within one event loop; one append at a time."""

    def __init__(
        self, bootstrap: Sequence[Endpoint], *, client_id: str = "pykraft-append", patience: Patience = PATIENCE
    ) -> None:
        """``bootstrap`` has some nodes of the quorum."""
        self._search = LeaderSearch(bootstrap)
        self._client_id = client_id
        self._patience = patience
        self._names: Names | None = None
        self._connection: Connection | None = None
        self._was_heard = False

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def append(self, values: Sequence[bytes]) -> Committed:
        """Append these values as one atomic batch; returns when they are committed.

        Errors: OutcomeUnknownError; for all others nothing was appended: QuorumUnavailableError when no leader was
        found within the time, UsageError when the leader accepts no appends, or for too large or empty records,
        RefusedError with the leader's reason.
        """
        size_bytes = sum(map(len, values)) + RECORD_OVERHEAD_BYTES_MAX * len(values)
        if not values or not all(values) or size_bytes > BATCH_SIZE_BYTES_MAX:
            raise UsageError(
                f"an append has at least one record, a record at least one byte, and all together at most "
                f"{BATCH_SIZE_BYTES_MAX} bytes with {RECORD_OVERHEAD_BYTES_MAX} added for each record"
            )
        batch = encode_batch(values, base_offset=Offset(0), epoch=EPOCH_ZERO, timestamp_ms=0).data
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
            committed = await self._try(batch, len(values))
            if committed is not None:
                if tries > TRIES_WITHOUT_PAUSE:
                    self._patience.on_waiting(None)
                return committed
            if tries > TRIES_WITHOUT_PAUSE:
                await self._learn_voters()

    async def _learn_voters(self) -> None:
        """In trouble, ask the node that answered last for the voters: any may lead, and the error names each."""
        if self._connection is not None:
            with suppress(UnreachableError):
                timeout_ms = self._patience.request_timeout_ms
                told = await voters_at(self._connection, timeout_ms=timeout_ms)
                self._search.told(self._connection.endpoint, *told)

    async def _try(self, batch: bytes, count: int) -> Committed | None:
        """Try the next node once; None when it certainly appended nothing and another try may help."""
        node = self._search.whom
        is_leader = node == self._search.leader
        try:
            connection = await self._connected(node)
        except UnreachableError as error:
            self._search.failed(node, error.problem)
            if self._search.is_nobody_there and not self._was_heard:
                # No node has ever answered: fail at once instead of waiting for an election.
                raise self._search.asked.silent() from None
            return None
        if not connection.offers_key(ApiKey.PRODUCE):
            await connection.close()
            story = (
                "it accepts no appends: set pykraft.append.listeners in the properties of each node "
                "(Kafka's controllers accept none)"
            )
            if is_leader:
                raise UsageError(f"{node}: {story}")
            self._search.failed(node, story)
            if self._search.is_nobody_there:
                raise UsageError(self._search.asked.story)
            return None
        timeout_ms = self._patience.request_timeout_ms
        topic = {"name": TEST_TOPIC_NAME, "partition_data": [{"index": 0, "records": batch}]}
        body = {"transactional_id": None, "acks": _ALL_ACKS, "timeout_ms": timeout_ms, "topic_data": [topic]}
        self._connection = None
        try:
            answer = await connection.ask_body(ApiKey.PRODUCE, body, timeout_ms=timeout_ms)
        except UnreachableError as error:
            self._search.failed(node, error.problem)
            raise OutcomeUnknownError(f"{error}: the records may be in the log, or not", count=count) from error
        self._connection = connection
        self._was_heard = True
        return self._judge(node, answer, count)

    def _judge(self, node: Endpoint, answer: Body, count: int) -> Committed | None:
        """What the answer says. Errors: OutcomeUnknownError, RefusedError."""
        told: list[Any] = [part for topic in answer["responses"] for part in topic["partition_responses"]]
        if len(told) != 1:
            problem = f"{node} answers one append {len(told)} times: the records may be in the log, or not"
            raise OutcomeUnknownError(problem, count=count)
        [part] = told
        code, text, base_offset = part["error_code"], part["error_message"], part["base_offset"]
        leader_id, epoch = part["current_leader"]["leader_id"], part["current_leader"]["leader_epoch"]
        if code == ErrorCode.NONE:
            self._search.led(node)
            return Committed(base_offset=Offset(base_offset), epoch=Epoch(epoch), count=count)
        if code == ErrorCode.REQUEST_TIMED_OUT:
            raise OutcomeUnknownError(f"{node}: {text}", base_offset=base_offset, epoch=epoch, count=count)
        if code not in _TRY_AGAIN:
            raise RefusedError("the append", code, text)
        if code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            endpoints = {each["node_id"]: Endpoint(each["host"], each["port"]) for each in answer["node_endpoints"]}
            leader = endpoints.get(leader_id) if leader_id >= 0 else None
            problem = whom_it_names(leader_id)
            known = leader if leader is not None and leader.can_be_dialed else None
            self._search.redirected(node, Epoch(max(epoch, 0)), known, problem)
        return None

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

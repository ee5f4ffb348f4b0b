"""Appends records to a live quorum from outside: one batch at a time, at the leader, with Kafka's Produce.

Invariant: records are sent again only if they are certainly not in the log: no connection was made, or a node answered
that it did not append them. If a request was sent and no answer decides it, the result is an OutcomeUnknownError.

Source: Kafka's ``KafkaProducer``; KIP-951 (the answer names the leader); ours (ADR 050).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pykraft.client.remote.leader_client import LeaderClient
from pykraft.client.remote.leader_fetch import PATIENCE, Patience
from pykraft.config import TEST_TOPIC_NAME
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
from pykraft.types import EPOCH_ZERO, Endpoint, Epoch, Offset

BATCH_SIZE_BYTES_MAX: Final = 60_000
"""Most bytes of the records of one append: a node accepts requests of 64 KiB."""
RECORD_OVERHEAD_BYTES_MAX: Final = 20
"""Most bytes that a batch adds to a value: three varints and four single bytes."""
_ALL_ACKS: Final = -1
_TRY_AGAIN: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.THROTTLING_QUOTA_EXCEEDED})
"""Answers of a pykraft node that has not appended the records and never will."""


class Appender(LeaderClient):
    """Use it in ``async with``, within one event loop; one append at a time."""

    def __init__(
        self, bootstrap: Sequence[Endpoint], *, client_id: str = "pykraft-append", patience: Patience = PATIENCE
    ) -> None:
        """``bootstrap`` has some nodes of the quorum."""
        super().__init__(bootstrap, client_id=client_id, patience=patience)

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
        return await self._until_done(lambda: self._try(batch, len(values)))

    async def _try(self, batch: bytes, count: int) -> Committed | None:
        """Try the next node once; None when it certainly appended nothing and another try may help."""
        node = self._search.whom
        is_leader = node == self._search.leader
        connection = await self._reached()
        if connection is None:
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
        try:
            answer = await self._ask(connection, ApiKey.PRODUCE, body)
        except UnreachableError as error:
            raise OutcomeUnknownError(f"{error}: the records may be in the log, or not", count=count) from error
        return self._judge(node, answer, count)

    def _judge(self, node: Endpoint, answer: Body, count: int) -> Committed | None:
        """What the answer says. Errors: OutcomeUnknownError, RefusedError."""
        told: list[Any] = [part for topic in answer["responses"] for part in topic["partition_responses"]]
        if len(told) != 1:
            problem = f"{node} answers one append {len(told)} times: the records may be in the log, or not"
            raise OutcomeUnknownError(problem, count=count)
        [part] = told
        code, text, base_offset = part["error_code"], part["error_message"], part["base_offset"]
        epoch = part["current_leader"]["leader_epoch"]
        if code == ErrorCode.NONE:
            self._search.led(node)
            return Committed(base_offset=Offset(base_offset), epoch=Epoch(epoch), count=count)
        if code == ErrorCode.REQUEST_TIMED_OUT:
            raise OutcomeUnknownError(f"{node}: {text}", base_offset=base_offset, epoch=epoch, count=count)
        if code not in _TRY_AGAIN:
            raise RefusedError("the append", code, text)
        if code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self._redirected(node, answer, part)
        return None

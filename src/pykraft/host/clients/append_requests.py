"""Produce: appends the records of a client that is not a member of the quorum, and answers when they are committed.

A request has one uncompressed batch in KRaft's form: values only, none of them empty. Any other batch would stop Java's
replicas, which read nothing else. Invariant: NOT_LEADER_OR_FOLLOWER and THROTTLING_QUOTA_EXCEEDED mean that the records
are not in the log and never will be. REQUEST_TIMED_OUT means that this is unknown: the leader lost its leadership after
the append. Kafka's brokers answer NOT_LEADER_OR_FOLLOWER in both cases.

No time limit is kept here: a leader that cannot commit resigns after 1.5 fetch timeouts, and every append then has its
outcome. An answer names the epoch of the append as the current leader's, also when there is no error.

Source: Kafka's ``ReplicaManager.appendRecords`` and ``DelayedProduce``; KIP-951; ours (ADR 050).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pykraft.core.status import Status
from pykraft.errors import (
    BufferFullError,
    ErrorCode,
    NotLeaderError,
    NotRunningError,
    ProtocolError,
    RecordBatchTooLargeError,
)
from pykraft.host.inbox import Inbox
from pykraft.host.producers import Committed, OutcomeUnknown, Producers, ProposalOutcome
from pykraft.protocol.records import Compression, check_crc, decode_values, read_header
from pykraft.protocol.schema import Body
from pykraft.types import Buffer, Epoch, Offset

ALL_ACKS: Final = -1
FULL: Final = "the leader has too much unwritten data: try again later"


class AppendRequests:
    """Proposes the records of Produce requests."""

    def __init__(self, producers: Producers, inbox: Inbox, *, topic_name: str, status: Callable[[], Status]) -> None:
        self._producers = producers
        self._inbox = inbox
        self._topic_name = topic_name
        self._status = status

    def handle(self, request: Body, listener: str, answer: Callable[[Body], None]) -> None:
        """Propose the records of one request; ``answer`` gets the answer, perhaps before this returns.

        Errors: ProtocolError for a request without records, and for acks 0, which Kafka never answers.
        """
        topics: list[Any] = request["topic_data"]
        if not topics or not topics[0]["partition_data"]:
            raise ProtocolError("a Produce request without records")
        if request["acks"] == 0:
            raise ProtocolError("a Produce request with acks 0 wants no answer, so nobody would know what was appended")
        if len(topics) > 1 or len(topics[0]["partition_data"]) > 1:
            raise ProtocolError("a Produce request for more than one partition")
        [topic], [[partition]] = topics, [topics[0]["partition_data"]]
        name, index = topic["name"], partition["index"]

        def reply(error: ErrorCode, text: str | None = None, *, epoch: int = -1, base_offset: int = -1) -> None:
            answer(self._answer(name, index, listener, error, text, epoch=epoch, base_offset=base_offset))

        def decided(outcome: ProposalOutcome) -> None:
            match outcome:
                case Committed():
                    reply(ErrorCode.NONE, epoch=outcome.epoch, base_offset=outcome.base_offset)
                case OutcomeUnknown():
                    text = (
                        f"the leader of epoch {outcome.epoch} lost its leadership after it had appended the records at "
                        f"offset {outcome.base_offset}: the next leader commits them, or drops them"
                    )
                    at = outcome.base_offset
                    reply(ErrorCode.REQUEST_TIMED_OUT, text, epoch=outcome.epoch, base_offset=at)
                case _:
                    reply(_code_of(outcome.error), str(outcome.error))

        if (name, index) != (self._topic_name, 0):
            reply(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"this quorum keeps partition 0 of {self._topic_name}")
        elif request["acks"] not in (ALL_ACKS, 1):
            reply(ErrorCode.INVALID_REQUIRED_ACKS, "give acks all (-1)")
        elif request["transactional_id"] is not None:
            reply(ErrorCode.INVALID_REQUEST, "transactions are not supported")
        elif not (status := self._status()).leads:
            reply(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this node does not lead epoch {status.epoch}")
        else:
            try:
                values = _values(partition["records"])
            except ProtocolError as error:
                reply(error.code, str(error))
            else:
                self._propose(values, status.epoch, decided)

    def _propose(self, values: list[bytes], epoch: Epoch, decided: Callable[[ProposalOutcome], None]) -> None:
        proposed = self._producers.propose(values, epoch=epoch, on_outcome=decided)
        if self._producers.is_overfull:
            self._producers.reject(proposed.handle, BufferFullError(FULL))
        else:
            self._inbox.put(proposed)

    def _answer(
        self, name: str, index: int, listener: str, error: ErrorCode, text: str | None, *, epoch: int, base_offset: int
    ) -> Body:
        status = self._status()
        endpoints: list[Body] = []
        leader_id = -1
        if status.serving_leader is not None:
            leader_id, listeners = status.serving_leader
            endpoint = listeners.get(listener)
            if endpoint is not None:
                endpoints = [{"node_id": leader_id, "host": endpoint.host, "port": endpoint.port}]
        told = {
            "index": index,
            "error_code": error,
            "base_offset": Offset(base_offset),
            "error_message": text,
            "current_leader": {"leader_id": leader_id, "leader_epoch": status.epoch if epoch < 0 else epoch},
        }
        return {"responses": [{"name": name, "partition_responses": [told]}], "node_endpoints": endpoints}


def _values(records: Buffer | None) -> list[bytes]:
    """The values of the one batch. Errors: ProtocolError."""
    if not records:
        raise ProtocolError("there are no records", ErrorCode.INVALID_RECORD)
    header = read_header(records)
    if header.size_bytes != len(records):
        raise ProtocolError("there is more than one batch, or a part of one", ErrorCode.INVALID_RECORD)
    check_crc(records, 0, header)
    if header.is_control or header.is_transactional or header.producer_id >= 0:
        raise ProtocolError("control batches, transactions and producer ids are not accepted", ErrorCode.INVALID_RECORD)
    # A small compressed batch could expand into a lot of work.
    if header.compression is not Compression.NONE:
        raise ProtocolError("compressed batches are not accepted", ErrorCode.INVALID_RECORD)
    return decode_values(records)


def _code_of(error: Exception) -> ErrorCode:
    """Kafka's code for a rejection: the records are not in the log."""
    match error:
        case NotLeaderError() | NotRunningError():
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        case BufferFullError():
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        case RecordBatchTooLargeError():
            return ErrorCode.MESSAGE_TOO_LARGE
        case _:
            # The epoch was the current one when the records were proposed, so no other rejection is left.
            raise AssertionError(f"a proposal was rejected: {error!r}")

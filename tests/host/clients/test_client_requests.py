"""Requests of clients: which are theirs, and which listener serves them.

Source: Kafka's ``KafkaApis``; KIP-98; ours (ADR 065).
"""

from __future__ import annotations

from typing import Any

from pykraft.errors import ErrorCode
from pykraft.host.clients.producer_states import COUNTER_BITS
from pykraft.protocol.messages import ApiKey
from pykraft.types import Epoch, Offset
from tests.host.clients.world import Leader, batch_of, fetch, produce
from tests.host.fakes import CLUSTER_ID

ID = (4 << COUNTER_BITS) + 1


def asked_epoch(epoch: int, **changes: Any) -> Any:
    body = fetch(0, **changes)
    body["topics"][0]["partitions"][0]["last_fetched_epoch"] = epoch
    return body


def test_a_fetch_of_a_replica_is_not_a_clients() -> None:
    clients = Leader().clients
    assert clients.serves(ApiKey.FETCH, fetch(0))
    assert not clients.serves(ApiKey.FETCH, asked_epoch(0, min_bytes=0)), "an observer without an id"
    assert not clients.serves(ApiKey.FETCH, asked_epoch(0, cluster_id=CLUSTER_ID)), "one that names its cluster"
    assert clients.serves(ApiKey.FETCH, asked_epoch(0)), "kafka-python's consumer tells the epoch of its last record"
    assert clients.serves(ApiKey.FETCH, asked_epoch(0, min_bytes=0, session_epoch=0)), "with sessions, at once"
    assert not clients.serves(ApiKey.FETCH, fetch(0, replica_id=2))
    assert not clients.serves(ApiKey.FETCH, fetch(0, replica_state={"replica_id": 2, "replica_epoch": -1}))
    assert clients.serves(ApiKey.METADATA, {})
    assert not clients.serves(ApiKey.VOTE, {})


def test_producers_follow_the_log() -> None:
    leader = Leader()
    leader.append(batch_of([b"a"], producer_id=ID), is_committed=False)

    def answer(sequence: int) -> Any:
        leader.ask(ApiKey.PRODUCE, 11, produce(batch_of([b"b"], producer_id=ID, sequence=sequence)[1]))
        if leader.answers:
            return leader.answer()["responses"][0]["partition_responses"][0]["error_code"]
        return leader.inbox.take()

    assert answer(2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    leader.clients.truncated(Offset(0))
    assert answer(1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    leader.clients.begun_anew(Epoch(4))
    assert answer(0) == ErrorCode.UNKNOWN_PRODUCER_ID

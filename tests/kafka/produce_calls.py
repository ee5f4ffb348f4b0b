"""Writes single batches to a node as a client does, with kio, so that no producer decides what they look like.

Source: Kafka protocol guide §Produce, §InitProducerId.
"""

import gzip
from datetime import timedelta
from typing import Any

from pykraft.config import TEST_TOPIC_NAME
from pykraft.protocol.batch import HEADER_SIZE_BYTES
from pykraft.types import Buffer
from tests.host.clients.world import batch_of, resealed
from tests.kafka.broker_calls import BrokerCalls, requests_of

INIT, PRODUCE = requests_of("init_producer_id.v4"), requests_of("produce.v9")
PATIENCE = timedelta(seconds=10)


def produce(calls: BrokerCalls, batch: Buffer) -> Any:
    """What the node tells of this one batch."""
    part = PRODUCE.PartitionProduceData(index=0, records=bytes(batch))
    topic = PRODUCE.TopicProduceData(name=TEST_TOPIC_NAME, partition_data=(part,))
    request = PRODUCE.ProduceRequest(acks=-1, timeout=PATIENCE, topic_data=(topic,))
    return calls.ask(request).responses[0].partition_responses[0]


def produce_as_new_producer(calls: BrokerCalls) -> Any:
    """What the node tells of the first batch of a producer that has just got its id."""
    issued = calls.call(INIT.InitProducerIdRequest(transactional_id=None, transaction_timeout=PATIENCE))
    return produce(calls, batch_of(producer_id=issued.producer_id)[1])


def gzip_batch() -> bytes:
    """A small batch, compressed."""
    plain = bytes(batch_of([b"a", b"b"])[1])
    body = gzip.compress(plain[HEADER_SIZE_BYTES:])
    length = HEADER_SIZE_BYTES - 12 + len(body)
    return resealed(plain[:8] + length.to_bytes(4, "big") + plain[12:HEADER_SIZE_BYTES] + body, attributes=1)

"""Writes three records with librdkafka, and reads them with three libraries, however the connection is protected."""

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PurePartition

TOPIC = "__cluster_metadata"
VALUES = [b"one", b"x" * 200_000, b"three"]
TIMEOUT_S = 30.0


def write(config: dict[str, Any]) -> list[str]:
    """Write the records with librdkafka; what it says about each, ``None`` without an error."""
    errors: list[object] = []
    producer = Producer(config)
    for value in VALUES:
        producer.produce(TOPIC, value=value, partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(TIMEOUT_S)
    return [str(error) for error in errors]


def read_by_librdkafka(config: dict[str, Any]) -> list[bytes]:
    consumer = Consumer({**config, "group.id": "none", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        found: list[bytes] = []
        while len(found) < len(VALUES):
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, found
            if message.error() is None:
                found.append(message.value())
        return found
    finally:
        consumer.close()


def read_by_aiokafka(servers: str, **protection: Any) -> list[bytes]:
    async def read() -> list[bytes]:
        consumer = AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest", **protection)
        consumer.assign([AioPartition(TOPIC, 0)])
        await consumer.start()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return [(await consumer.getone()).value for _ in VALUES]
        finally:
            await consumer.stop()

    return asyncio.run(read())


def read_by_kafka_python(servers: str, **protection: Any) -> list[bytes]:
    consumer = KafkaConsumer(
        bootstrap_servers=servers, auto_offset_reset="earliest", consumer_timeout_ms=TIMEOUT_S * 1_000, **protection
    )
    try:
        consumer.assign([PurePartition(TOPIC, 0)])
        return [next(consumer).value for _ in VALUES]
    finally:
        consumer.close()

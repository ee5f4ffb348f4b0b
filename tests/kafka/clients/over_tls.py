"""A program that writes with librdkafka over TLS, and reads with three libraries; it prints what each read.

python -m tests.kafka.clients.over_tls SERVERS CERTIFICATE AUTHORITY
"""

import asyncio
import json
import ssl
import sys

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PurePartition

TOPIC = "__cluster_metadata"
VALUES = [b"one", b"x" * 200_000, b"three"]
TIMEOUT_S = 30.0


def read_by_aiokafka(servers: str, context: ssl.SSLContext) -> list[bytes]:
    async def read() -> list[bytes]:
        consumer = AIOKafkaConsumer(
            bootstrap_servers=servers, security_protocol="SSL", ssl_context=context, auto_offset_reset="earliest"
        )
        consumer.assign([AioPartition(TOPIC, 0)])
        await consumer.start()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return [(await consumer.getone()).value for _ in VALUES]
        finally:
            await consumer.stop()

    return asyncio.run(read())


def read_by_kafka_python(servers: str, context: ssl.SSLContext) -> list[bytes]:
    consumer = KafkaConsumer(
        bootstrap_servers=servers,
        security_protocol="SSL",
        ssl_context=context,
        auto_offset_reset="earliest",
        consumer_timeout_ms=TIMEOUT_S * 1_000,
    )
    try:
        consumer.assign([PurePartition(TOPIC, 0)])
        return [next(consumer).value for _ in VALUES]
    finally:
        consumer.close()


def read_by_librdkafka(config: dict[str, str]) -> list[bytes]:
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


def main(servers: str, own: str, trusted: str) -> None:
    """Write and read; a client without a certificate gets nothing."""
    config = {"bootstrap.servers": servers, "security.protocol": "ssl", "ssl.ca.location": trusted}
    with_certificate = {**config, "ssl.certificate.location": own, "ssl.key.location": own}
    errors: list[object] = []
    producer = Producer(with_certificate)
    for value in VALUES:
        producer.produce(TOPIC, value=value, partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(TIMEOUT_S)
    context = ssl.create_default_context(cafile=trusted)
    context.load_cert_chain(own)
    read = {
        "librdkafka": read_by_librdkafka(with_certificate),
        "aiokafka": read_by_aiokafka(servers, context),
        "kafka-python": read_by_kafka_python(servers, context),
    }
    try:
        Producer(config).list_topics(timeout=2)
        stranger = "served"
    except KafkaException:
        stranger = "refused"
    print(
        json.dumps(
            {
                "errors": [str(error) for error in errors],
                "read": {name: values == VALUES for name, values in read.items()},
                "stranger": stranger,
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])

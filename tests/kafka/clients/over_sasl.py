"""A program that writes with librdkafka and reads with three libraries, by one mechanism; it prints what each read.

python -m tests.kafka.clients.over_sasl SERVERS MECHANISM USER SECRET

The secret is a password, or a token for OAUTHBEARER. A stranger then tries with another one.
"""

import asyncio
import json
import sys
import time
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from aiokafka.abc import AbstractTokenProvider as AioTokens
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer
from kafka import TopicPartition as PurePartition
from kafka.net.sasl.oauth import AbstractTokenProvider as PureTokens

TOPIC = "__cluster_metadata"
PROTOCOL = "SASL_PLAINTEXT"
OAUTHBEARER = "OAUTHBEARER"
VALUES = [b"one", b"x" * 200_000, b"three"]
TIMEOUT_S = 30.0


class AioToken(AioTokens):  # type: ignore[misc]
    """The token, for aiokafka."""

    def __init__(self, token: str) -> None:
        self._token = token

    async def token(self) -> str:
        return self._token


class PureToken(PureTokens):  # type: ignore[misc]
    """The token, for kafka-python."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token

    def token(self) -> str:
        return self._token


def read_by_aiokafka(servers: str, mechanism: str, user: str, secret: str) -> list[bytes]:
    given: dict[str, Any] = {"sasl_plain_username": user, "sasl_plain_password": secret}

    async def read() -> list[bytes]:
        how = {"sasl_oauth_token_provider": AioToken(secret)} if mechanism == OAUTHBEARER else given
        consumer = AIOKafkaConsumer(
            bootstrap_servers=servers,
            security_protocol=PROTOCOL,
            sasl_mechanism=mechanism,
            auto_offset_reset="earliest",
            **how,
        )
        consumer.assign([AioPartition(TOPIC, 0)])
        await consumer.start()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return [(await consumer.getone()).value for _ in VALUES]
        finally:
            await consumer.stop()

    return asyncio.run(read())


def read_by_kafka_python(servers: str, mechanism: str, user: str, secret: str) -> list[bytes]:
    given: dict[str, Any] = {"sasl_plain_username": user, "sasl_plain_password": secret}
    consumer = KafkaConsumer(
        bootstrap_servers=servers,
        security_protocol=PROTOCOL,
        sasl_mechanism=mechanism,
        auto_offset_reset="earliest",
        consumer_timeout_ms=TIMEOUT_S * 1_000,
        **({"sasl_oauth_token_provider": PureToken(secret)} if mechanism == OAUTHBEARER else given),
    )
    try:
        consumer.assign([PurePartition(TOPIC, 0)])
        return [next(consumer).value for _ in VALUES]
    finally:
        consumer.close()


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


def for_librdkafka(servers: str, mechanism: str, user: str, secret: str) -> dict[str, Any]:
    config: dict[str, Any] = {
        "bootstrap.servers": servers,
        "security.protocol": PROTOCOL.lower(),
        "sasl.mechanism": mechanism,
    }
    if mechanism == OAUTHBEARER:
        return {**config, "oauth_cb": lambda _: (secret, time.time() + 3_600)}
    return {**config, "sasl.username": user, "sasl.password": secret}


def main(servers: str, mechanism: str, user: str, secret: str) -> None:
    """Write and read; a stranger gets nothing."""
    config = for_librdkafka(servers, mechanism, user, secret)
    errors: list[object] = []
    producer = Producer(config)
    for value in VALUES:
        producer.produce(TOPIC, value=value, partition=0, on_delivery=lambda error, _: errors.append(error))
    producer.flush(TIMEOUT_S)
    how = (servers, mechanism, user, secret)
    read = {
        "librdkafka": read_by_librdkafka(config),
        "aiokafka": read_by_aiokafka(*how),
        "kafka-python": read_by_kafka_python(*how),
    }
    complaints: list[str] = []
    stranger = for_librdkafka(servers, mechanism, user, secret[:-4] + "AAAA")
    client = Producer({**stranger, "error_cb": lambda error: complaints.append(str(error))})
    end_s = time.monotonic() + TIMEOUT_S
    while not complaints and time.monotonic() < end_s:
        client.poll(0.1)
    try:
        client.list_topics(timeout=2)
        told = "served"
    except KafkaException:
        told = "refused"
    print(
        json.dumps(
            {
                "errors": [str(error) for error in errors],
                "read": {name: values[-len(VALUES) :] == VALUES for name, values in read.items()},
                "stranger": told,
                "complaints": complaints,
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A program that writes with librdkafka and reads with three libraries, by one mechanism; it prints what each read.

python -m tests.kafka.clients.over_sasl SERVERS MECHANISM USER SECRET

The secret is a password, or a token for OAUTHBEARER. A stranger then tries with another one.
"""

import json
import sys
import time
from typing import Any

from aiokafka.abc import AbstractTokenProvider as AioTokens
from confluent_kafka import KafkaException, Producer
from kafka.net.sasl.oauth import AbstractTokenProvider as PureTokens

from tests.kafka.clients.readers import (
    TIMEOUT_S,
    VALUES,
    read_by_aiokafka,
    read_by_kafka_python,
    read_by_librdkafka,
    write,
)

PROTOCOL = "SASL_PLAINTEXT"
OAUTHBEARER = "OAUTHBEARER"


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
    errors = write(config)
    how: dict[str, Any] = {"security_protocol": PROTOCOL, "sasl_mechanism": mechanism}
    named = {"sasl_plain_username": user, "sasl_plain_password": secret}
    is_token = mechanism == OAUTHBEARER
    read = {
        "librdkafka": read_by_librdkafka(config),
        "aiokafka": read_by_aiokafka(
            servers, **how, **({"sasl_oauth_token_provider": AioToken(secret)} if is_token else named)
        ),
        "kafka-python": read_by_kafka_python(
            servers, **how, **({"sasl_oauth_token_provider": PureToken(secret)} if is_token else named)
        ),
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
                "errors": errors,
                "read": {name: values[-len(VALUES) :] == VALUES for name, values in read.items()},
                "stranger": told,
                "complaints": complaints,
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])

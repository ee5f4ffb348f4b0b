"""Members of consumer groups with the three libraries, by what each client's first tutorial does: subscribe and read.

    python -m tests.kafka.clients.members LIBRARY SERVERS TOPIC COUNT

It prints how a producer with transactions is refused, which of twice COUNT records a first consumer read that commits
by itself and is closed after COUNT, whether it ended at once, and which COUNT a second one of the same group read next.
By then each client has more records than it gave its program.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from functools import partial

GROUP = "members"
TIMEOUT_S = 30.0


def produce(servers: str, topic: str, count: int) -> None:
    """Append so many records."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers})
    for number in range(count):
        producer.produce(topic, str(number).encode())
    assert producer.flush(TIMEOUT_S) == 0


def refusal_of_transactions(servers: str) -> str:
    """The error of a producer that begins transactions: at once, not after a timeout."""
    from confluent_kafka import KafkaException, Producer

    producer = Producer({"bootstrap.servers": servers, "transactional.id": "t"})
    try:
        producer.init_transactions(TIMEOUT_S)
    except KafkaException as error:
        return f"{error.args[0].name()}: {error.args[0].str()}"
    return "none"


def confluent(servers: str, topic: str, count: int, *, is_next: bool = False) -> tuple[list[int], float]:
    """The records that a consumer reads, and how long it takes to close."""
    from confluent_kafka import Consumer

    settings = {"bootstrap.servers": servers, "group.id": GROUP, "auto.offset.reset": "earliest"}
    # The oldest librdkafka knows neither the next protocol nor the property.
    consumer = Consumer(settings | ({"group.protocol": "consumer"} if is_next else {}))
    consumer.subscribe([topic])
    found, deadline = list[int](), time.monotonic() + TIMEOUT_S
    while len(found) < count and time.monotonic() < deadline:
        message = consumer.poll(1.0)
        if message is not None:
            assert message.error() is None, message.error()
            found.append(int(message.value()))
    return found, seconds(consumer.close)


def pure(servers: str, topic: str, count: int) -> tuple[list[int], float]:
    """See `confluent`."""
    from kafka import KafkaConsumer

    names = servers.split(",")
    consumer = KafkaConsumer(topic, bootstrap_servers=names, group_id=GROUP, auto_offset_reset="earliest")
    found, deadline = list[int](), time.monotonic() + TIMEOUT_S
    while len(found) < count and time.monotonic() < deadline:
        polled = consumer.poll(timeout_ms=1_000, max_records=count - len(found))
        found += [int(record.value) for records in polled.values() for record in records]
    return found, seconds(consumer.close)


async def aio_reads(servers: str, topic: str, count: int) -> tuple[list[int], float]:
    """See `confluent`."""
    from aiokafka import AIOKafkaConsumer

    consumer = AIOKafkaConsumer(topic, bootstrap_servers=servers, group_id=GROUP, auto_offset_reset="earliest")
    await consumer.start()
    found, deadline = list[int](), time.monotonic() + TIMEOUT_S
    while len(found) < count and time.monotonic() < deadline:
        polled = await consumer.getmany(timeout_ms=1_000, max_records=count - len(found))
        found += [int(record.value) for records in polled.values() for record in records]
    begun = time.monotonic()
    await consumer.stop()
    return found, time.monotonic() - begun


def aio(servers: str, topic: str, count: int) -> tuple[list[int], float]:
    """See `confluent`."""
    return asyncio.run(aio_reads(servers, topic, count))


def seconds(act: Callable[[], object]) -> float:
    begun = time.monotonic()
    act()
    return time.monotonic() - begun


LIBRARIES: dict[str, Callable[[str, str, int], tuple[list[int], float]]] = {
    "confluent": confluent,
    "confluent-consumer": partial(confluent, is_next=True),
    "pure": pure,
    "aio": aio,
}


def main(library: str, servers: str, topic: str, count: int) -> None:
    """Two consumers, one after the other."""
    read = LIBRARIES[library]
    produce(servers, topic, 2 * count)
    first, close_s = read(servers, topic, count)
    second, _ = read(servers, topic, count)
    refusal = refusal_of_transactions(servers)
    print(json.dumps({"transactions": refusal, "first": first, "closes_at_once": close_s < 1.0, "second": second}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))

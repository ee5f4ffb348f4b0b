"""confluent-kafka, which is librdkafka: a program that uses it (`tests.kafka.clients.program`)."""

import sys
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.kafka.clients.program import UNKNOWN_TOPIC, Acknowledge, Read, Sent, Target, main

TIMEOUT_S: Final = 30.0
WAITED_OUT: Final = {
    KafkaError.UNSUPPORTED_VERSION,  # a group's coordinator, which it looks for although the partition is assigned
    KafkaError._TRANSPORT,
    KafkaError._ALL_BROKERS_DOWN,
}
"""Errors that a consumer with an assigned partition hears of, and that do not end it."""


class Confluent:
    """librdkafka from Python."""

    def produce(self, target: Target, records: Iterable[Sent], acknowledge: Acknowledge) -> None:
        """See `ClientProgram`."""
        producer = Producer(
            {
                "bootstrap.servers": target.servers,
                "compression.type": target.compression,
                "enable.idempotence": target.is_idempotent,
                "acks": "all",
            }
        )

        def delivered(record: Sent, error: KafkaError | None, message: Message) -> None:
            if error is not None:
                raise KafkaException(error)
            acknowledge(record, message.offset())

        for record in records:
            while True:
                try:
                    producer.produce(
                        target.topic,
                        value=record.value,
                        key=record.key,
                        headers=record.headers,
                        partition=0,
                        on_delivery=partial(delivered, record),
                    )
                except BufferError:
                    # The queue is full while nobody leads: wait for deliveries.
                    producer.poll(1.0)
                else:
                    break
            producer.poll(0)
        producer.flush()

    def consume(self, target: Target, offset: int, count: int) -> Iterator[Read]:
        """See `ClientProgram`."""
        consumer = self._consumer(target)
        consumer.assign([TopicPartition(target.topic, 0, offset)])
        while count:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if message.error() is not None:
                if message.error().code() not in WAITED_OUT:
                    raise KafkaException(message.error())
                continue
            count -= 1
            yield Read(
                offset=message.offset(), key=message.key(), value=message.value(), headers=message.headers() or []
            )
        consumer.close()

    def describe(self, target: Target) -> dict[str, Any]:
        """See `ClientProgram`."""
        admin = AdminClient({"bootstrap.servers": target.servers})
        metadata = admin.list_topics(target.topic, timeout=TIMEOUT_S)
        if hasattr(admin, "describe_cluster"):  # the oldest one has none
            assert admin.describe_cluster(request_timeout=TIMEOUT_S).result().cluster_id == metadata.cluster_id
        consumer = self._consumer(target)
        partition = TopicPartition(target.topic, 0)
        low, high = consumer.get_watermark_offsets(partition, timeout=TIMEOUT_S)
        [at_time] = consumer.offsets_for_times([TopicPartition(target.topic, 0, 1)], timeout=TIMEOUT_S)
        consumer.close()
        return {
            "cluster_id": metadata.cluster_id,
            "nodes": sorted(metadata.brokers),
            "leader": metadata.topics[target.topic].partitions[0].leader,
            "start_offset": low,
            "end_offset": high,
            "offset_of_time": at_time.offset,
        }

    def error_of_unknown_topic(self, target: Target) -> str:
        """See `ClientProgram`."""
        errors: list[KafkaError] = []
        producer = Producer({"bootstrap.servers": target.servers, "topic.metadata.propagation.max.ms": 100})
        producer.produce(UNKNOWN_TOPIC, value=b"x", on_delivery=lambda error, _: errors.append(error))
        producer.flush(TIMEOUT_S)
        return str(errors[0].name())

    def _consumer(self, target: Target) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": target.servers,
                # librdkafka wants a name even where no group is kept: the partition is assigned.
                "group.id": "assigned",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )


if __name__ == "__main__":
    sys.exit(main(Confluent()))

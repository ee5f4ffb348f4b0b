"""kafka-python: a program that produces and consumes with it (`tests.kafka.clients.program`)."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaConnectionError, KafkaError

from tests.kafka.clients.program import UNKNOWN_TOPIC, Acknowledge, Membership, Read, Sent, Target, main

UNKNOWN_TIMEOUT_MS: Final = 1_000
POLL_TIMEOUT_MS: Final = 1_000
BATCH: Final = 20


class Pure:
    """kafka-python."""

    def produce(self, target: Target, records: Iterable[Sent], acknowledge: Acknowledge) -> None:
        """See `ClientProgram`."""
        failures: list[BaseException] = []
        producer = KafkaProducer(
            bootstrap_servers=target.servers.split(","),
            compression_type=None if target.compression == "none" else target.compression,
            enable_idempotence=target.is_idempotent,
            acks="all",
            linger_ms=5,
        )

        def acknowledged(record: Sent, metadata: Any) -> None:
            acknowledge(record, metadata.offset)

        for record in records:
            sent = producer.send(target.topic, value=record.value, key=record.key, headers=record.headers, partition=0)
            sent.add_callback(partial(acknowledged, record))
            sent.add_errback(failures.append)
        producer.flush()
        producer.close()
        if failures:
            raise failures[0]

    def consume(self, target: Target, offset: int, count: int) -> Iterator[Read]:
        """See `ClientProgram`."""
        consumer = self._consumer(target)
        partition = TopicPartition(target.topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, offset)
        while count:
            found = consumer.poll(timeout_ms=POLL_TIMEOUT_MS, max_records=count)
            for record in found.get(partition, ()):
                count -= 1
                yield Read(offset=record.offset, key=record.key, value=record.value, headers=list(record.headers))
        consumer.close()

    def subscribe(self, target: Target, membership: Membership) -> Iterator[list[Read]]:
        """See `ClientProgram`."""
        consumer = KafkaConsumer(
            target.topic,
            bootstrap_servers=target.servers.split(","),
            group_id=membership.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=membership.session_ms,
            heartbeat_interval_ms=membership.session_ms // 10,
        )
        while True:
            try:
                found = consumer.poll(timeout_ms=POLL_TIMEOUT_MS, max_records=BATCH)
            except KafkaConnectionError:  # a node was killed: kafka-python 3.0 tells the program, too, and tries again
                continue
            for records in found.values():
                yield [Read(offset=each.offset, key=each.key, value=each.value, headers=[]) for each in records]
                # Refused is the commit of one that was away: another member reads these records again.
                with suppress(KafkaError):
                    consumer.commit()

    def describe(self, target: Target) -> dict[str, Any]:
        """See `ClientProgram`."""
        admin = KafkaAdminClient(bootstrap_servers=target.servers.split(","))
        cluster = admin.describe_cluster()
        [topic] = admin.describe_topics([target.topic])
        admin.close()
        consumer = self._consumer(target)
        partition = TopicPartition(target.topic, 0)
        start = consumer.beginning_offsets([partition])
        end = consumer.end_offsets([partition])
        at_time = consumer.offsets_for_times({partition: 1})
        consumer.close()
        return {
            "cluster_id": cluster["cluster_id"],
            "nodes": sorted(broker.get("broker_id", broker.get("node_id")) for broker in cluster["brokers"]),
            "leader": topic["partitions"][0]["leader_id"],
            "start_offset": start[partition],
            "end_offset": end[partition],
            "offset_of_time": at_time[partition].offset,
        }

    def error_of_unknown_topic(self, target: Target) -> str:
        """See `ClientProgram`."""
        # It asks for the topic's metadata until its own timeout, and then says that.
        producer = KafkaProducer(bootstrap_servers=target.servers.split(","), max_block_ms=UNKNOWN_TIMEOUT_MS)
        try:
            producer.send(UNKNOWN_TOPIC, b"x").get(timeout=UNKNOWN_TIMEOUT_MS / 1_000)
        except KafkaError as error:
            return type(error).__name__
        finally:
            producer.close()
        return "none"

    def _consumer(self, target: Target) -> KafkaConsumer:
        return KafkaConsumer(bootstrap_servers=target.servers.split(","), auto_offset_reset="none")


if __name__ == "__main__":
    sys.exit(main(Pure()))

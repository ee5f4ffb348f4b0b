"""aiokafka: a program that produces and consumes with it (`tests.kafka.clients.program`)."""

import asyncio
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from tests.kafka.clients.program import UNKNOWN_TOPIC, Acknowledge, Membership, Read, Sent, Target, main

SLICE: Final = 50
"""Records that are taken from the paced iterator at a time: it blocks, so it runs in a thread."""
OUTSTANDING_MAX: Final = 5_000
UNKNOWN_TIMEOUT_MS: Final = 1_000
READ_AHEAD_MAX: Final = 5_000


class Aio:
    """aiokafka."""

    def produce(self, target: Target, records: Iterable[Sent], acknowledge: Acknowledge) -> None:
        """See `ClientProgram`."""
        asyncio.run(self._produce(target, records, acknowledge))

    async def _produce(self, target: Target, records: Iterable[Sent], acknowledge: Acknowledge) -> None:
        source = iter(records)
        outstanding: set[asyncio.Task[None]] = set()
        producer = AIOKafkaProducer(
            bootstrap_servers=target.servers,
            compression_type=None if target.compression == "none" else target.compression,
            enable_idempotence=target.is_idempotent,
            acks="all",
            linger_ms=5,
        )

        async def settle(record: Sent, sent: asyncio.Future[Any]) -> None:
            acknowledge(record, (await sent).offset)

        async with producer:
            while piece := await asyncio.to_thread(lambda: list(islice(source, SLICE))):
                for record in piece:
                    sent = await producer.send(
                        target.topic, value=record.value, key=record.key, headers=record.headers, partition=0
                    )
                    outstanding.add(asyncio.create_task(settle(record, sent)))
                done = {task for task in outstanding if task.done()}
                if len(outstanding) > OUTSTANDING_MAX:
                    done, _ = await asyncio.wait(outstanding)
                outstanding -= done
                for task in done:
                    task.result()
            await asyncio.gather(*outstanding)

    def consume(self, target: Target, offset: int, count: int) -> Iterator[Read]:
        """See `ClientProgram`."""
        with asyncio.Runner() as runner:
            partition = TopicPartition(target.topic, 0)
            consumer = runner.run(self._assigned_consumer(target, partition, offset))
            while count:
                # Within one call it never reads further than the count: what it has read it gives.
                found = runner.run(consumer.getmany(timeout_ms=1_000, max_records=min(count, READ_AHEAD_MAX)))
                for record in found.get(partition, ()):
                    count -= 1
                    yield Read(offset=record.offset, key=record.key, value=record.value, headers=list(record.headers))
            runner.run(consumer.stop())

    def subscribe(self, target: Target, membership: Membership) -> Iterator[list[Read]]:
        """See `ClientProgram`."""
        with asyncio.Runner() as runner:
            consumer = runner.run(self._member(target, membership))
            while True:
                found = runner.run(consumer.getmany(timeout_ms=UNKNOWN_TIMEOUT_MS, max_records=SLICE))
                for records in found.values():
                    yield [Read(offset=each.offset, key=each.key, value=each.value, headers=[]) for each in records]
                if found:
                    # Refused is the commit of one that was away: another member reads these records again.
                    with suppress(KafkaError):
                        runner.run(consumer.commit())

    async def _member(self, target: Target, membership: Membership) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            target.topic,
            bootstrap_servers=target.servers,
            group_id=membership.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=membership.session_ms,
            heartbeat_interval_ms=membership.session_ms // 10,
        )
        await consumer.start()
        return consumer

    def describe(self, target: Target) -> dict[str, Any]:
        """See `ClientProgram`."""
        return asyncio.run(self._describe(target))

    async def _describe(self, target: Target) -> dict[str, Any]:
        admin = AIOKafkaAdminClient(bootstrap_servers=target.servers)
        await admin.start()
        cluster = await admin.describe_cluster()
        [topic] = await admin.describe_topics([target.topic])
        await admin.close()
        consumer = await self._consumer(target)
        partition = TopicPartition(target.topic, 0)
        start = await consumer.beginning_offsets([partition])
        end = await consumer.end_offsets([partition])
        at_time = await consumer.offsets_for_times({partition: 1})
        await consumer.stop()
        return {
            "cluster_id": cluster["cluster_id"],
            "nodes": sorted(broker["node_id"] for broker in cluster["brokers"]),
            "leader": topic["partitions"][0]["leader"],
            "start_offset": start[partition],
            "end_offset": end[partition],
            "offset_of_time": at_time[partition].offset,
        }

    def error_of_unknown_topic(self, target: Target) -> str:
        """See `ClientProgram`."""
        return asyncio.run(self._error_of_unknown_topic(target))

    async def _error_of_unknown_topic(self, target: Target) -> str:
        # It asks for the topic's metadata until its own timeout, and then says that.
        producer = AIOKafkaProducer(bootstrap_servers=target.servers, request_timeout_ms=UNKNOWN_TIMEOUT_MS)
        async with producer:
            try:
                await producer.send_and_wait(UNKNOWN_TOPIC, b"x")
            except KafkaError as error:
                return type(error).__name__
        return "none"

    async def _assigned_consumer(self, target: Target, partition: TopicPartition, offset: int) -> AIOKafkaConsumer:
        consumer = await self._consumer(target)
        consumer.assign([partition])
        consumer.seek(partition, offset)
        return consumer

    async def _consumer(self, target: Target) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(bootstrap_servers=target.servers, auto_offset_reset="none")
        await consumer.start()
        return consumer


if __name__ == "__main__":
    sys.exit(main(Aio()))

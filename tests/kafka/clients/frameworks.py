"""Stream frameworks on librdkafka, by what each one's first tutorial does: write to the log, and read it.

    python -m tests.kafka.clients.frameworks FRAMEWORK SERVERS TOPIC COUNT

It writes COUNT records and prints the values that the framework then reads, one JSON list of each reader.
Quix reads as the member of a group, so it reads in two parts; Bytewax assigns partitions and reads from the start.
"""

import json
import sys


def bytewax(servers: str, topic: str, count: int) -> list[list[str]]:
    """One flow into the log, and one out of it, up to its end."""
    from bytewax import operators as op
    from bytewax.connectors.kafka import KafkaSinkMessage, KafkaSourceMessage
    from bytewax.connectors.kafka import operators as kop
    from bytewax.dataflow import Dataflow
    from bytewax.testing import TestingSink, TestingSource, run_main

    writing = Dataflow("writing")
    numbers = op.input("numbers", writing, TestingSource([*range(count)]))
    messages = op.map("messages", numbers, lambda number: KafkaSinkMessage(b"key", str(number).encode()))
    kop.output("log", messages, brokers=servers.split(","), topic=topic)
    run_main(writing)

    values: list[str] = []

    def value_of(message: KafkaSourceMessage[bytes, bytes]) -> str:
        return str(message.value, "utf-8")

    reading = Dataflow("reading")
    log = kop.input("log", reading, brokers=servers.split(","), topics=[topic], tail=False)
    op.raises("errors", log.errs)
    op.output("values", op.map("value", log.oks, value_of), TestingSink(values))
    run_main(reading)
    return [values]


def quix(servers: str, topic: str, count: int) -> list[list[str]]:
    """Its producer, and two applications of one group, one after the other."""
    from quixstreams import Application

    def application() -> Application:
        return Application(broker_address=servers, consumer_group="quix", auto_offset_reset="earliest", loglevel=None)

    writing = application()
    with writing.get_producer() as producer:
        for number in range(count):
            producer.produce(writing.topic(topic).name, key=b"key", value=str(number).encode())
    parts: list[list[str]] = []
    for part in (count // 2, count - count // 2):
        values: list[str] = []
        reading = application()
        reading.dataframe(reading.topic(topic, value_deserializer="str")).update(values.append)
        reading.run(count=part, timeout=30)
        parts.append(values)
    return parts


def main(framework: str, servers: str, topic: str, count: int) -> None:
    """One framework."""
    print(json.dumps({"bytewax": bytewax, "quix": quix}[framework](servers, topic, count)))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))

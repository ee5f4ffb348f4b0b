"""The command line that every client program shares: produce, consume, or the case of the stage ``kafka``.

    python -m tests.kafka.clients.confluent produce   --servers HOST:PORT,… --topic T --prefix P --count N
    python -m tests.kafka.clients.confluent consume   --servers … --topic T --offset O --count N
    python -m tests.kafka.clients.confluent subscribe --servers … --topic T --group G --session MS --count N
    python -m tests.kafka.clients.confluent case      --servers … --topic T

``produce`` prints ``prefix.number offset`` for each acknowledged record, ``consume`` and ``subscribe`` print
``offset value`` for each record, ``case`` prints one JSON object. ``subscribe`` is the member of a group, and commits
what it has printed. A program runs in a process of its own, since clients start threads and have
their own idea of warnings. Invariant: status 0 means that every record was acknowledged, or read.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from threading import Event
from typing import Any, Final, Protocol

COMPRESSIONS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
CASE_COUNT: Final = 200
"""Records of each compression in the case."""
STEP_S: Final = 0.02
"""A paced producer pauses for at least this long, and sends the next records at once."""
UNKNOWN_TOPIC: Final = "no-such-topic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One record for the log: every program gives it the same key and header."""

    prefix: str
    number: int

    @property
    def value(self) -> bytes:
        """What identifies it: ``prefix.number``, as VerifiableProducer writes it."""
        return f"{self.prefix}.{self.number}".encode()

    @property
    def key(self) -> bytes:
        """Its key."""
        return f"key {self.number}".encode()

    @property
    def headers(self) -> list[tuple[str, bytes]]:
        """Its one header."""
        return [("prefix", self.prefix.encode())]


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One record that a client has read."""

    offset: int
    key: bytes | None
    value: bytes
    headers: list[tuple[str, bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Where the records go, and how."""

    servers: str
    topic: str
    compression: str = "none"
    is_idempotent: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Membership:
    """The group, how long it waits for a silent member, and its protocol: ``classic``, or ``consumer`` (KIP-848)."""

    group: str
    session_ms: int
    protocol: str = "classic"


Acknowledge = Callable[[Sent, int], None]


class ClientProgram(Protocol):
    """One client library."""

    def produce(self, target: Target, records: Iterable[Sent], acknowledge: Acknowledge) -> None:
        """Send all records and wait until each is acknowledged. Errors: the library's own."""
        ...

    def consume(self, target: Target, offset: int, count: int) -> Iterator[Read]:
        """This many records from this offset on, with an assigned partition."""
        ...

    def subscribe(self, target: Target, membership: Membership) -> Iterator[list[Read]]:
        """Records without end, as a member of a group; before the next ones are read, the last ones are committed."""
        ...

    def describe(self, target: Target) -> dict[str, Any]:
        """What its calls about the cluster and the topic say; every program has the keys of ``case_of``."""
        ...

    def error_of_unknown_topic(self, target: Target) -> str:
        """The name of the error that one record for an unknown topic gets."""
        ...


def paced(prefix: str, count: int, rate: float) -> Iterator[Sent]:
    """This many records, at most ``rate`` a second; 0 means as fast as the client takes them."""
    never, started = Event(), time.monotonic()
    for number in range(count):
        ahead_s = number / rate - (time.monotonic() - started) if rate else 0.0
        if ahead_s > STEP_S:
            never.wait(ahead_s)
        yield Sent(prefix=prefix, number=number)


def print_line(line: str) -> None:
    """Print a line of its own, even where the library has written half a line of its log to the same file."""
    sys.stdout.write(f"\n{line}\n")
    sys.stdout.flush()


def case_of(client: ClientProgram, target: Target) -> dict[str, Any]:
    """Produce with each compression, read everything back, ask about the cluster, and name an unknown topic."""
    offsets: dict[bytes, int] = {}

    def acknowledge(record: Sent, offset: int) -> None:
        offsets[record.value] = offset

    for compression in COMPRESSIONS:
        each = Target(servers=target.servers, topic=target.topic, compression=compression)
        client.produce(each, paced(compression, CASE_COUNT, 0), acknowledge)
    first = min(offsets.values())
    expected = {sent.value: (sent.key, sent.headers) for name in COMPRESSIONS for sent in paced(name, CASE_COUNT, 0)}
    read = list(client.consume(target, first, len(offsets)))
    return {
        "acknowledged": len(offsets),
        "first_offset": first,
        "read_in_place": sum(offsets.get(record.value) == record.offset for record in read),
        "read_whole": sum(expected.get(record.value) == (record.key, record.headers) for record in read),
        "is_in_order": [record.value for record in read] == list(expected),
        "unknown_topic": client.error_of_unknown_topic(target),
        **client.describe(target),
    }


def main(client: ClientProgram, words: Sequence[str] | None = None) -> int:
    """The command line; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("produce", "consume", "subscribe", "case"))
    parser.add_argument("--servers", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--prefix", default="0")
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--group", default="g")
    parser.add_argument("--session", type=int, default=10_000, help="milliseconds")
    parser.add_argument("--protocol", default="classic")
    parser.add_argument("--compression", choices=COMPRESSIONS, default="none")
    parser.add_argument("--plain", action="store_true", help="acks=all without idempotence")
    options = parser.parse_args(words)
    target = Target(
        servers=options.servers, topic=options.topic, compression=options.compression, is_idempotent=not options.plain
    )
    if options.mode == "produce":
        count = 0

        def acknowledge(record: Sent, offset: int) -> None:
            nonlocal count
            count += 1
            print_line(f"{record.value.decode()} {offset}")

        client.produce(target, paced(options.prefix, options.count, options.rate), acknowledge)
        return 0 if count == options.count else 1
    if options.mode == "consume":
        for record in client.consume(target, options.offset, options.count):
            print_line(f"{record.offset} {record.value.decode()}")
        return 0
    if options.mode == "subscribe":
        membership = Membership(group=options.group, session_ms=options.session, protocol=options.protocol)
        read = 0
        for records in client.subscribe(target, membership):
            for record in records:
                print_line(f"{record.offset} {record.value.decode()}")
            if read >= options.count:
                break
            read += len(records)
        return 0
    json.dump(case_of(client, target), sys.stdout)
    return 0

"""The clients of the run with kills: how each is started as a producer and as a consumer, and what its lines mean.

Invariant: each producer writes the values ``segment.number`` from number 0, with acks=all, at a limited rate, and tells
the offset of each acknowledged record; each consumer reads the assigned partition from an offset.
"""

import importlib.metadata
import itertools
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from lab.kafka.jars import KAFKA_VERSION
from pykraft.errors import UsageError
from pykraft.local.voters import SOURCES
from pykraft.process.extras import cache_folder
from tests.go_program import go_program
from tests.kafka.clients.program import COMPRESSIONS, paced
from tests.kafka.clients.verdict import Place

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parents[2]
TOOLS: Final = "org.apache.kafka.tools"
CLASSIC: Final = "classic"
STAYS: Final = ("-E",)
"""Without it kcat ends when it is connected to no node for a moment, which librdkafka would survive."""
KCAT_DELIVERED: Final = re.compile(r"Message delivered to partition \d+ \(offset (\d+)\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a producer, a consumer or the member of a group is to do.

    ``offset`` is the consumer's; ``group``, ``session_ms`` and ``protocol`` are the member's; ``count`` is for all, and
    the rest for the producer.

    Units: ``rate`` in records per second.
    """

    servers: str
    topic: str
    count: int
    folder: Path
    segment: int = 0
    rate: float = 0.0
    compression: str = "none"
    is_idempotent: bool = True
    offset: int = 0
    group: str = "g"
    session_ms: int = 10_000
    protocol: str = CLASSIC


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A process to start. ``place_of`` reads one line of its output; ``feed`` is written to its standard input."""

    command: Sequence[str]
    place_of: Callable[[str], Place | None]
    feed: Iterator[bytes] | None = None
    environment: dict[str, str] = field(default_factory=dict)


class Contender(Protocol):
    """One client."""

    @property
    def name(self) -> str:
        """As the table names it."""
        ...

    @property
    def compressions(self) -> tuple[str, ...]:
        """Those that it has."""
        ...

    @property
    def has_idempotence(self) -> bool:
        """Whether its producer can be idempotent."""
        ...

    def version(self) -> str:
        """The version that is installed. Errors: UsageError when it is not."""
        ...

    def producer(self, order: Order) -> Program:
        """The process that produces."""
        ...

    def consumer(self, order: Order) -> Program:
        """The process that consumes."""
        ...

    def member(self, order: Order) -> Program:
        """The process that consumes as the member of a group, and commits what it has read."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Library:
    """A library in a program of `tests.kafka.clients`, whose words `tests.kafka.clients.program` describes.

    ``command`` is how it begins, ``installed`` returns its version. Both raise UsageError when it cannot be had.
    """

    name: str
    command: Callable[[], Sequence[str]]
    installed: Callable[[], str]
    compressions: tuple[str, ...] = COMPRESSIONS
    has_idempotence: bool = True

    def version(self) -> str:
        """See `Contender`."""
        return self.installed()

    def producer(self, order: Order) -> Program:
        """See `Contender`."""
        words = ["--prefix", str(order.segment), "--rate", str(order.rate), "--compression", order.compression]
        return self._program("produce", order, *words, *([] if order.is_idempotent else ["--plain"]), value_first=True)

    def consumer(self, order: Order) -> Program:
        """See `Contender`."""
        return self._program("consume", order, "--offset", str(order.offset), value_first=False)

    def member(self, order: Order) -> Program:
        """See `Contender`."""
        words = ("--group", order.group, "--session", str(order.session_ms))
        protocol = () if order.protocol == CLASSIC else ("--protocol", order.protocol)
        return self._program("subscribe", order, *words, *protocol, value_first=False)

    def _program(self, mode: str, order: Order, *words: str, value_first: bool) -> Program:
        def place_of(line: str) -> Place | None:
            found = re.fullmatch(r"(\d+\.\d+) (\d+)" if value_first else r"(\d+) (\d+\.\d+)", line)
            if found is None:
                return None
            offset, value = (found[2], found[1]) if value_first else (found[1], found[2])
            return int(offset), value

        shared = ("--servers", order.servers, "--topic", order.topic, "--count", str(order.count))
        command = [*self.command(), mode, *shared, *words]
        return Program(command=command, place_of=place_of, environment={"PYTHONPATH": f"{SOURCES}:{ROOT}"})


def python_library(name: str, module: str) -> Library:
    """A library for Python, in a module here."""

    def installed() -> str:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            raise UsageError(f"{name} is not installed: run bin/_environment clients") from None

    return Library(
        name=name, command=lambda: [sys.executable, "-m", f"tests.kafka.clients.{module}"], installed=installed
    )


def go_library(name: str, *, has_idempotence: bool = True) -> Library:
    """A library for Go, in the program of the folder ``go``."""

    def program() -> str:
        return str(go_program(HERE / "go", "clients"))

    def installed() -> str:
        told = subprocess.run([program(), "version"], capture_output=True, text=True, check=True).stdout
        return str(json.loads(told)[name])

    return Library(name=name, command=lambda: [program(), name], installed=installed, has_idempotence=has_idempotence)


KAFKA_JS: Final = "2.2.4"


def kafka_js() -> Library:
    """KafkaJS, which npm installs into the user's cache folder. Other compressions are packages of their own there."""

    def folder() -> Path:
        found = cache_folder() / f"kafkajs-{KAFKA_JS}"
        if not (found / "node_modules" / "kafkajs").exists():
            npm = shutil.which("npm")
            if npm is None:
                raise UsageError("there is no npm, and KafkaJS runs in Node; on Debian: apt-get install npm")
            words = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-save", "--prefix", str(found)]
            done = subprocess.run([*words, f"kafkajs@{KAFKA_JS}"], capture_output=True, text=True, check=False)
            if done.returncode:
                raise UsageError(f"npm cannot install KafkaJS: {done.stderr.strip()}")
        return found

    def installed() -> str:
        folder()
        return KAFKA_JS

    return Library(
        name="KafkaJS",
        command=lambda: ["node", str(HERE / "js" / "client.mjs"), str(folder())],
        installed=installed,
        compressions=("none", "gzip"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaTools:
    """VerifiableProducer and ConsoleConsumer from Kafka's jars."""

    name: str = "Java: VerifiableProducer, ConsoleConsumer"
    compressions: tuple[str, ...] = COMPRESSIONS
    has_idempotence: bool = True

    def version(self) -> str:
        """See `Contender`."""
        return KAFKA_VERSION

    def producer(self, order: Order) -> Program:
        """See `Contender`."""
        properties = order.folder / f"producer-{order.segment}.properties"
        # The tool itself sets retries=0: it is the client that is tried here, and a client retries.
        properties.write_text(
            f"enable.idempotence={str(order.is_idempotent).lower()}\nacks=all\nretries=2147483647\n"
            f"compression.type={order.compression}\nlinger.ms=5\n"
        )
        words = ["--bootstrap-server", order.servers, "--topic", order.topic, "--max-messages", str(order.count)]
        words += ("--throughput", str(round(order.rate) or -1), "--value-prefix", str(order.segment))
        words += ("--command-config", str(properties))
        return self._program(f"{TOOLS}.VerifiableProducer", words, _sent_by_verifiable_producer)

    def consumer(self, order: Order) -> Program:
        """See `Contender`."""

        def place_of(line: str) -> Place | None:
            found = re.fullmatch(r"Offset:(\d+)\t(\d+\.\d+)", line)
            return None if found is None else (int(found[1]), found[2])

        words = ["--bootstrap-server", order.servers, "--topic", order.topic, "--partition", "0"]
        words += ("--offset", str(order.offset), "--max-messages", str(order.count))
        words += ("--formatter-property", "print.offset=true")
        return self._program(f"{TOOLS}.consumer.ConsoleConsumer", words, place_of)

    def member(self, order: Order) -> Program:
        """See `Contender`."""

        def place_of(line: str) -> Place | None:
            told = json.loads(line) if line.startswith('{"') else {}
            return (told["offset"], told["value"]) if told.get("name") == "record_data" else None

        properties = order.folder / f"{order.group}.properties"
        properties.write_text("" if order.protocol != CLASSIC else f"heartbeat.interval.ms={order.session_ms // 10}\n")
        words = ["--bootstrap-server", order.servers, "--topic", order.topic, "--group-id", order.group, "--verbose"]
        words += ("--reset-policy", "earliest", "--group-protocol", order.protocol)
        words += ("--session-timeout", str(order.session_ms)) if order.protocol == CLASSIC else ()
        return self._program(f"{TOOLS}.VerifiableConsumer", [*words, "--command-config", str(properties)], place_of)

    def _program(self, main: str, words: Sequence[str], place_of: Callable[[str], Place | None]) -> Program:
        command = [str(ROOT / "bin" / "kafka-run-class.sh"), main, *words]
        return Program(command=command, place_of=place_of, environment={"KAFKA_HEAP_OPTS": "-Xmx256m -XX:+UseSerialGC"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Kcat:
    """kcat, which is librdkafka from a shell. It tells the offsets of what was delivered, in the order of its input."""

    name: str = "kcat"
    compressions: tuple[str, ...] = COMPRESSIONS
    has_idempotence: bool = True

    def version(self) -> str:
        """See `Contender`."""
        if shutil.which("kcat") is None:
            raise UsageError("there is no kcat. On Debian: apt-get install kcat")
        text = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
        found = re.search(r"Version (\S+).*librdkafka (\S+)", text)
        return f"{found[1]} (librdkafka {found[2]})" if found is not None else "unknown"

    def producer(self, order: Order) -> Program:
        """See `Contender`."""
        delivered = itertools.count()

        def place_of(line: str) -> Place | None:
            found = KCAT_DELIVERED.search(line)
            return None if found is None else (int(found[1]), f"{order.segment}.{next(delivered)}")

        # Without idempotence a retry could overtake, and a line would not tell whose offset it is.
        in_flight = ("enable.idempotence=true",) if order.is_idempotent else ("max.in.flight=1",)
        settings = (*in_flight, "acks=all", f"compression.codec={order.compression}")
        options = [word for setting in settings for word in ("-X", setting)]
        where = ("-b", order.servers, "-t", order.topic, "-p", "0")
        records = paced(str(order.segment), order.count, order.rate)
        feed = (record.value + b"\n" for record in records)
        return Program(command=["kcat", "-P", "-vvv", *STAYS, *where, *options], place_of=place_of, feed=feed)

    def consumer(self, order: Order) -> Program:
        """See `Contender`."""

        def place_of(line: str) -> Place | None:
            found = re.fullmatch(r"(\d+) (\d+\.\d+)", line)
            return None if found is None else (int(found[1]), found[2])

        where = ("-b", order.servers, "-t", order.topic, "-p", "0", "-o", str(order.offset), "-c", str(order.count))
        return Program(command=["kcat", "-C", "-q", "-u", *STAYS, "-f", "%o %s\n", *where], place_of=place_of)

    def member(self, order: Order) -> Program:
        """See `Contender`: none, since kcat commits what it reads before it prints it."""
        raise UsageError(f"kcat cannot be asked to commit after processing: {order.group} has no member")


CONTENDERS: Final[dict[str, Contender]] = {
    "java": JavaTools(),
    "confluent-kafka": python_library("confluent-kafka", "confluent"),
    "aiokafka": python_library("aiokafka", "aio"),
    "kafka-python": python_library("kafka-python", "pure"),
    "kcat": Kcat(),
    "franz-go": go_library("franz-go"),
    "sarama": go_library("sarama"),
    "kafka-go": go_library("kafka-go", has_idempotence=False),
    "KafkaJS": kafka_js(),
}


def _sent_by_verifiable_producer(line: str) -> Place | None:
    if not line.startswith("{"):
        return None
    told = json.loads(line)
    return (told["offset"], told["value"]) if told.get("name") == "producer_send_success" else None

"""Runs Kafka's classes: finds Java, chooses its flags, runs a tool from start to end, or a node of TestRaftServer.

If Java is missing or too old, the error comes before anything starts and names the Debian package. `SMALL_JVM` is for
many short-lived JVMs on two cores, `SERVER_JVM` for a node that is measured.

A node takes part in a local quorum, with other Java nodes or with ours. Invariant: its ports and folder belong to its
caller alone, because every TestRaftServer has the same cluster id, so two quorums that shared a port would merge. Its
process is one of the caller's `Children`, which stop it. It appends ``--throughput`` records per second while it leads,
prints a line of statistics now and then, and exits with 143 after SIGTERM.

Source: Kafka's ``kafka-server-start.sh`` and ``kafka-run-class.sh``, whose defaults `SERVER_JVM` has.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from lab.kafka.jars import KafkaUnavailableError, check_jars, ensure_jars
from pykraft.local.child import Child, Children
from pykraft.local.voters import PARTITION, voter_properties, write_properties
from pykraft.types import Uuid, uuid_text

STOPPED_BY_SIGTERM = 143
JAVA_VERSION_MIN = 17
PACKAGE = "openjdk-17-jre-headless"
LOG_CONFIG = Path(__file__).resolve().parent / "log4j2.properties"
SMALL_JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.awt.headless=true")
"""A small heap, the serial collector, only the first compiler: starts in half the time, and runs slower afterwards."""
SERVER_JVM = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)
"""The flags with which Kafka's own scripts start a server."""
TALKATIVE = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
"""Environment variables that make every JVM print an extra first line."""


class JavaNode:
    """A TestRaftServer that can be started, stopped, killed, paused and restarted in the same folder."""

    def __init__(  # noqa: PLR0913 - all by name, and each is the command line of a node
        self,
        kafka: Kafka,
        children: Children,
        home: Path,
        *,
        node_id: int,
        ports: Mapping[int, int],
        throughput: int = 200,
        record_size_bytes: int = 64,
        properties: Mapping[str, str] | None = None,
        log_level: str = "INFO",
        jvm: Sequence[str] = SMALL_JVM,
    ) -> None:
        """``ports`` are those of all voters by node id, also this node; ``throughput`` is in records per second."""
        self.node_id = node_id
        self.partition = home / "data" / PARTITION
        self.log_path = home / "node.log"
        self._children = children
        self._child: Child | None = None
        home.mkdir(parents=True)
        values = voter_properties(home / "data", node_id=node_id, ports=ports, extra=properties)
        arguments = {
            "config": write_properties(home / "server.properties", values),
            "replica-directory-id": uuid_text(Uuid(b"kafka" + node_id.to_bytes(11))),
            "throughput": throughput,
            "record-size": record_size_bytes,
        }
        flat = [part for key, value in arguments.items() for part in (f"--{key}", str(value))]
        self._command = kafka.command(Main.RAFT_NODE, flat, log_level=log_level, jvm=jvm)

    @property
    def process(self) -> Child:
        assert self._child is not None, f"Java node {self.node_id} was not started"
        return self._child

    def start(self) -> None:
        """Start or restart it; its files show when it is up."""
        assert self._child is None or self._child.status is not None, f"Java node {self.node_id} is already running"
        self._child = self._children.start(f"Java node {self.node_id}", self._command, self.log_path)


class Main(Enum):
    """Main classes in Kafka's jars, by purpose."""

    RAFT_NODE = "kafka.tools.TestRaftServer"
    SERVER = "kafka.Kafka"
    DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"
    PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
    QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
    STORAGE = "kafka.tools.StorageTool"
    FEATURES = "org.apache.kafka.tools.FeatureCommand"
    TOPICS = "org.apache.kafka.tools.TopicCommand"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """A tool that has ended."""

    status: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Kafka:
    """A Java runtime and the jars of one Kafka release."""

    java: Path
    jars: Path

    @classmethod
    def find(cls, jars: Path | None = None) -> Kafka:
        """This machine's Java with these jars, or by default with our own, which are fetched on first use.

        Errors: KafkaUnavailableError.
        """
        return cls(java=find_java(), jars=check_jars(jars) if jars is not None else ensure_jars())

    def command(
        self, main: Main, arguments: Sequence[str], *, log_level: str = "WARN", jvm: Sequence[str] = SMALL_JVM
    ) -> list[str]:
        """The command that runs this class; it logs to standard error from ``log_level`` on."""
        return [
            str(self.java),
            *jvm,
            f"-Dlog4j2.configurationFile={LOG_CONFIG}",
            f"-Dpykraft.log.level={log_level}",
            "-cp",
            f"{self.jars}/*",
            main.value,
            *arguments,
        ]

    def run(self, main: Main, *arguments: str, timeout_s: float = 60.0) -> Finished:
        """Run a tool to its end, whatever its exit status. Errors: subprocess.TimeoutExpired, after killing it."""
        done = subprocess.run(
            self.command(main, arguments),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env={key: value for key, value in os.environ.items() if key not in TALKATIVE},
            timeout=timeout_s,
            check=False,
        )
        return Finished(status=done.returncode, stdout=done.stdout, stderr=done.stderr)


def find_java() -> Path:
    """The java of ``JAVA_HOME``, or else of the PATH.

    Errors: KafkaUnavailableError if there is none, or if it is too old for Kafka.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=f"{home}/bin" if home else None)
    if found is None:
        place = f"JAVA_HOME ({home})" if home else "the PATH"
        raise KafkaUnavailableError(
            f"no java in {place}; Kafka needs Java {JAVA_VERSION_MIN} or later: install Debian's package {PACKAGE}"
        )
    text = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    version = re.search(r'version "(\d+)', text)
    if version is None or int(version[1]) < JAVA_VERSION_MIN:
        raise KafkaUnavailableError(
            f"{found} is not Java {JAVA_VERSION_MIN} or later: install Debian's package {PACKAGE}; it says:\n{text}"
        )
    return Path(found)

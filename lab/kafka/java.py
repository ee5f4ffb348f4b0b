"""Runs a class of Kafka's jars: finds Java, chooses its flags, and runs a tool from start to end.

Invariant: if Java is missing or too old, the error comes before anything starts and names the Debian package.
`SMALL_JVM` is for many short-lived JVMs on two cores, `SERVER_JVM` for a node that is measured.
`lab.kafka.peer` runs nodes.

Source: Kafka's ``kafka-server-start.sh`` and ``kafka-run-class.sh``, whose defaults `SERVER_JVM` has.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from lab.kafka.jars import KafkaUnavailableError, check_jars, ensure_jars

JAVA_VERSION_MIN = 17
PACKAGE = "openjdk-17-jre-headless"
LOG_CONFIG = Path(__file__).resolve().parent / "log4j2.properties"
SMALL_JVM = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Djava.awt.headless=true",
)
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

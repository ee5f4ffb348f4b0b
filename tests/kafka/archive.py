"""An archive of the Java classes that Kafka loads: a JVM that maps them starts for half of the processor time.

    python -m tests.kafka.archive FILE

Starts a controller and lets its JVM write the archive when it exits. ``bin/test kafka`` does so and names the file in
``KAFKA_ARCHIVE``; the fixture `kafka` then gives it to every node and tool. A JVM that cannot use the archive, or
without one, loads its classes as always.

Source: JEP 350, dynamic class data sharing.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.kafka.java import SMALL_JVM, Kafka, Main
from pykraft.local.child import Children

VARIABLE = "KAFKA_ARCHIVE"
EXIT_TIMEOUT_S = 120.0


@dataclass(frozen=True, kw_only=True)
class ArchivedKafka(Kafka):
    """Kafka's jars, with an archive for each small JVM."""

    archive: Path

    @property
    def small_jvm(self) -> Sequence[str]:
        """Java's options with the archive."""
        return *SMALL_JVM, f"-XX:SharedArchiveFile={self.archive}"

    def command(
        self, main: Main, arguments: Sequence[str], *, log_level: str = "WARN", jvm: Sequence[str] = SMALL_JVM
    ) -> list[str]:
        """See `Kafka.command`; other JVMs than small ones are left as they are."""
        return Kafka.command(
            self, main, arguments, log_level=log_level, jvm=self.small_jvm if jvm is SMALL_JVM else jvm
        )


def find_kafka() -> Kafka:
    """Kafka, with the archive that the environment names. Errors: KafkaUnavailableError."""
    found = Kafka.find()
    archive = os.environ.get(VARIABLE)
    return ArchivedKafka(java=found.java, jars=found.jars, archive=Path(archive)) if archive else found


def write_archive(kafka: Kafka, path: Path) -> None:
    """Start a controller, stop it, and wait for the archive. Errors: LocalQuorumError; subprocess.TimeoutExpired."""
    from tests.kafka.controller import JavaController
    from tests.kafka.test_quorum_tool import wait_for_controller

    with tempfile.TemporaryDirectory() as folder, Children() as children:
        controller = JavaController(kafka, children, Path(folder) / "n1")
        jvm = (*SMALL_JVM, f"-XX:ArchiveClassesAtExit={path}")
        command = kafka.command(Main.SERVER, [str(controller.config)], jvm=jvm)
        process = children.start("Java controller", command, Path(folder) / "node.log")
        wait_for_controller(controller, process)
        process.terminate()
        process.wait(timeout_s=EXIT_TIMEOUT_S)


def main(words: Sequence[str]) -> None:
    """The command line; see the module."""
    (path,) = words
    write_archive(Kafka.find(), Path(path))


if __name__ == "__main__":
    main(sys.argv[1:])

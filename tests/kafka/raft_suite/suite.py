"""Runs Kafka's published tests of its raft client on the real client or on the shim, and reads what came of them.

The jars are fetched once with Maven, the shim is compiled once for each content of its sources. A run is one JVM, or
two beside each other, each with a Python process of its own. Invariant: every test that the launcher found is reported;
one that did not run fails the run.

Source: JUnit's console launcher; Kafka's artifact ``kafka-raft`` with the classifier ``test``.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as Xml
from zipfile import ZipFile

from lab.kafka.jars import KAFKA_VERSION, KafkaUnavailableError, ensure_jars
from lab.kafka.java import TALKATIVE, find_java
from pykraft.process.extras import cache_folder
from tests.kafka.raft_suite.older import translated
from tests.kafka.raft_suite.tries import with_tries
from tests.tidy.repository import ROOT

HERE: Final = Path(__file__).resolve().parent
POM: Final = HERE / "pom.xml"
LOCKED: Final = HERE / "jars.sha256"
SHIM: Final = HERE / "java"
PACKAGE: Final = "org.apache.kafka.raft"
CLASSES: Final = (
    "KafkaRaftClientTest",
    "KafkaRaftClientPreVoteTest",
    "KafkaRaftClientFetchTest",
    "KafkaRaftClientSnapshotTest",
    "KafkaRaftClientReconfigTest",
    "KafkaRaftClientAutoJoinTest",
    "KafkaRaftClientClusterAuthTest",
)
SIMULATION: Final = "RaftEventSimulationTest"
JVM: Final = ("-Xmx1g", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Djava.awt.headless=true")
COMPILER: Final = "openjdk-17-jdk-headless"
DISPLAY: Final = re.compile(r"display-name: (?:\[\d+\] )?(.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One test: ``problem`` is the first line of what it failed with, None for one that passed."""

    test_class: str
    method: str
    parameters: str
    problem: str | None

    @property
    def name(self) -> str:
        """Class and method."""
        return f"{self.test_class}.{self.method}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some classes of tests, and of these the tests whose class and method match."""

    classes: Sequence[str]
    methods: str = ".*"


TESTS: Final = (Part(classes=CLASSES[:1]), Part(classes=CLASSES[1:]))
"""All tests, in two parts that take about as long."""
SIMULATIONS: Final = (
    Part(classes=(SIMULATION,), methods=r".*#(canElect|leadership).*"),
    Part(classes=(SIMULATION,), methods=r".*#(canMake|canRecover).*"),
)
"""The same of the nine simulated properties."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Kafka's tests of one release, and Java to run them."""

    java: Path
    jars: Path
    version: str

    @classmethod
    def find(cls, version: str = KAFKA_VERSION) -> Suite:
        """This machine's Java and the jars of this release, which are fetched on first use.

        Errors: KafkaUnavailableError, also for a release without published tests.
        """
        locked = LOCKED if version == KAFKA_VERSION else None
        name = f"kafka-raft-tests-{version}"
        return cls(
            java=find_java(), jars=ensure_jars(locked=locked, name=name, pom=POM, version=version), version=version
        )

    @property
    def classes(self) -> list[str]:
        """The classes of tests that this release has."""
        with ZipFile(self._test_jar) as archive:
            there = {Path(name).stem for name in archive.namelist()}
        return [name for name in CLASSES if name in there]

    @property
    def _test_jar(self) -> Path:
        [jar] = self.jars.glob("kafka-raft-*-test.jar")
        return jar

    def shim(self) -> Path:
        """The folder with the compiled shim. Errors: KafkaUnavailableError when it does not compile with these jars."""
        known = {path.name: path.read_text() for path in sorted(SHIM.rglob("*.java"))}
        sources = translated(known, self.version)
        digest = hashlib.sha256(self.jars.name.encode())
        for text in sources.values():
            digest.update(text.encode())
        folder = cache_folder() / f"raft-shim-{digest.hexdigest()[:16]}"
        if folder.exists():
            return folder
        compiler = shutil.which("javac", path=str(self.java.resolve().parent)) or shutil.which("javac")
        if compiler is None:
            raise KafkaUnavailableError(f"no javac beside java or on the PATH: install Debian's package {COMPILER}")
        with tempfile.TemporaryDirectory(dir=folder.parent) as work:
            fresh = Path(work) / "classes"
            paths = [Path(work) / name for name in sources]
            for path in paths:
                path.write_text(sources[path.name])
            command = [compiler, "-nowarn", "-d", str(fresh), "-cp", f"{self.jars}/*", *map(str, paths)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise KafkaUnavailableError(f"the shim does not compile against {self.jars.name}:\n{done.stderr}")
            if not folder.exists():
                fresh.rename(folder)
        return folder

    def run(
        self,
        part: Part,
        *,
        is_real: bool = False,
        options: Sequence[str] = (),
        tries: int | None = None,
        socket: Path | None = None,
        timeout_s: float | None = None,
    ) -> list[Outcome]:
        """The outcomes of these tests, on the shim or on the real client.

        ``options`` are those of `tests.kafka.raft_suite.process`; ``tries`` those of each simulated property. With a
        ``socket`` it starts no process of its own.

        Errors: AssertionError when the launcher does not come to its end; subprocess.TimeoutExpired.
        """
        with tempfile.TemporaryDirectory(prefix="raft-suite-") as scratch:
            work = Path(scratch)
            path = [f"{self.jars}/*"]
            if not is_real:
                path.insert(0, str(self.shim()))
            if tries is not None:
                path.insert(0, str(self._with_tries(work / "patched", tries)))
            if is_real or socket is not None:
                return self._launch(work, part, path, socket, timeout_s)
            with python_process(work / "socket", options) as started:
                return self._launch(work, part, path, started, timeout_s)

    def run_beside(
        self, parts: Sequence[Part], *, options: Sequence[str] = (), tries: int | None = None
    ) -> list[Outcome]:
        """As `run` on the shim, each part in a JVM of its own, all at one time."""
        self.shim()
        with ThreadPoolExecutor(len(parts)) as pool:
            done = [pool.submit(self.run, part, options=options, tries=tries) for part in parts]
            return [outcome for each in done for outcome in each.result()]

    def _with_tries(self, folder: Path, tries: int) -> Path:
        entry = f"{PACKAGE.replace('.', '/')}/{SIMULATION}.class"
        with ZipFile(self._test_jar) as archive:
            patched = with_tries(archive.read(entry), tries)
        (folder / entry).parent.mkdir(parents=True)
        (folder / entry).write_bytes(patched)
        return folder

    def _launch(
        self, work: Path, part: Part, path: Sequence[str], socket: Path | None, timeout_s: float | None
    ) -> list[Outcome]:
        [launcher] = self.jars.glob("junit-platform-console-standalone-*.jar")
        selected = [word for name in part.classes for word in ("-c", name if "." in name else f"{PACKAGE}.{name}")]
        reports = work / "reports"
        agents = [f"-javaagent:{each}" for each in self.jars.glob("byte-buddy-agent-*.jar")]
        command = [
            str(self.java),
            *JVM,
            *agents,
            *([] if socket is None else [f"-Dpykraft.socket={socket}"]),
            *("-cp", os.pathsep.join(_expanded([*path, str(launcher)]))),
            *("org.junit.platform.console.ConsoleLauncher", "execute", "--details=summary"),
            *(f"--reports-dir={reports}", f"--include-methodname={part.methods}", *selected),
        ]
        environment = {key: value for key, value in os.environ.items() if key not in TALKATIVE}
        # jqwik leaves a database where it runs.
        done = subprocess.run(
            command,
            cwd=work,
            capture_output=True,
            text=True,
            errors="replace",
            env=environment,
            timeout=timeout_s,
            check=False,
        )
        found = [outcome for report in sorted(reports.glob("TEST-*.xml")) for outcome in read_report(report)]
        counted = re.search(r"\[ *(\d+) tests found", done.stdout)
        assert counted is not None, f"the launcher said:\n{done.stdout[-2_000:]}{done.stderr[-2_000:]}"
        assert int(counted[1]) == len(found), f"{counted[1]} tests were found, and {len(found)} are reported"
        return found


def _expanded(path: Sequence[str]) -> list[str]:
    """A class path without wildcards, in a fixed order."""
    return [
        str(jar)
        for each in path
        for jar in (sorted(Path(each).parent.glob("*.jar")) if each.endswith("/*") else [each])
    ]


@contextmanager
def python_process(socket: Path, options: Sequence[str] = ()) -> Iterator[Path]:
    """A process behind the shim, from its start to its end; its socket."""
    command = [sys.executable, "-m", "tests.kafka.raft_suite.process", str(socket), *options]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline(), "the Python process ended before it listened"
            yield socket
        finally:
            process.kill()


def read_report(path: Path) -> list[Outcome]:
    """The tests of one of the launcher's reports."""
    found: list[Outcome] = []
    for case in Xml.parse(path).getroot().iter("testcase"):  # noqa: S314 - the launcher wrote it
        shown = DISPLAY.search(case.findtext("system-out") or "")
        method = case.attrib["name"].partition("(")[0]
        parameters = shown[1] if shown is not None else ""
        failures = [each for kind in ("failure", "error", "skipped") for each in case.iter(kind)]
        problem = None
        if failures:
            text = failures[0].attrib.get("message") or failures[0].text or failures[0].tag
            problem = text.strip().partition("\n")[0]
        found.append(
            Outcome(
                test_class=case.attrib["classname"].rpartition(".")[2],
                method=method,
                parameters="" if parameters.partition("(")[0] == method else parameters,
                problem=problem,
            )
        )
    return found

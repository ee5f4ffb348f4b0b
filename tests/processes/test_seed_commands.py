"""The commands in the READMEs of Kafka's raft module run as printed; only ports and folders differ.

A README's blocks are read from a copy of its command lines. ``cat >>`` steps run twice, as they do for somebody who
follows the README again; each server command runs in the "terminal" of its own that the README asks for.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.nodes.logs import read_stream, wait_for_end_offset
from pykraft.local.child import Child, Children, wait_until
from pykraft.local.journal import record_spans
from pykraft.local.voters import PARTITION, free_ports
from tests.tidy.repository import ROOT

pytestmark = pytest.mark.processes

HERE = Path(__file__).parent
RECORDS = 500
PRINTED = re.compile(
    r"^Throughput \(bytes/second\): (\d+\.\d\d), Latency \(ms\): \d+\.\d p75 \d+\.\d p99 \d+\.\d p999$", re.MULTILINE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Readme:
    """What a README has one do, with other ports, in a folder that looks like a clone."""

    folder: Path
    preparing: tuple[str, ...]
    alone: str
    together: tuple[str, ...]

    @classmethod
    def put(cls, folder: Path, name: str) -> Readme:
        """Read the copy of this name; folders in ``/tmp`` become folders in ``folder``."""
        ports = free_ports(3)

        def put_elsewhere(text: str) -> str:
            for printed, port in zip(("9092", "9093", "9094"), ports, strict=True):
                text = text.replace(f":{printed}", f":{port}")
            return text.replace("/tmp/", f"{folder}/")  # noqa: S108 - the very folder that is not used

        shutil.copytree(ROOT / "config", folder / "config")
        (folder / "bin").symlink_to(ROOT / "bin")
        for sample in (folder / "config").glob("*.properties"):
            sample.write_text(put_elsewhere(sample.read_text()))
        page = put_elsewhere((HERE / name).read_text())
        lines = [line.removeprefix("    ") for line in page.splitlines() if line[:1] in ("", " ")]
        text = "\n".join(lines) + "\n"
        servers = re.findall(r"^bin/.+$", text, re.MULTILINE)
        preparing = tuple(re.findall(r"^cat << EOF >> .+?^EOF\n", text, re.MULTILINE | re.DOTALL))
        return cls(folder=folder, preparing=preparing, alone=servers[0], together=tuple(servers[1:]))

    def terminal(self, children: Children, name: str, command: str, *, environment: dict[str, str]) -> Child:
        """Run one command in the clone."""
        line = f"cd '{self.folder}' && {command}"
        return children.start(name, ["sh", "-c", line], self.folder / f"{name}.out", environment=environment)

    def partition(self, data: str) -> Path:
        """Where a node with this data folder keeps its log."""
        return self.folder / data / PARTITION


@pytest.fixture(params=["2025", "2020"])
def readme(request: pytest.FixtureRequest, tmp_path: Path) -> Readme:
    folder = tmp_path / "clone"
    folder.mkdir()
    return Readme.put(folder, f"seed_readme_{request.param}.md")


@pytest.fixture
def environment() -> dict[str, str]:
    """What a terminal may have set for Java; nothing of it matters."""
    return {"KAFKA_HEAP_OPTS": "-Xmx1G -Xms1G", "KAFKA_LOG4J_OPTS": "-Dlog4j.configuration=file:none"}


def directory_id(partition: Path) -> str:
    [line] = [line for line in (partition.parent / "meta.properties").read_text().splitlines() if "directory" in line]
    return line.removeprefix("directory.id=")


@pytest.mark.conformance("H15", "H17", "H19", "H64")
def test_one_node_writes_its_load_and_prints_it(
    readme: Readme, children: Children, environment: dict[str, str]
) -> None:
    child = readme.terminal(children, "alone", f"exec {readme.alone}", environment=environment)
    data = "kraft-logs" if "kraft" in readme.alone else "raft-logs"
    wait_for_end_offset(readme.partition(data), RECORDS, child)
    printed = wait_until(lambda: PRINTED.search(child.log()), "throughput and latency", alive=[child])
    assert 0 < float(printed[1]) < 5_000 * 256 * 1.1, "the throttle holds; a busy machine writes less"
    assert child.stop() == 0
    if "--replica-directory-id" in readme.alone:
        assert directory_id(readme.partition(data)) == readme.alone.split()[-1]


@pytest.mark.conformance("H18", "H19", "H66", "H78")
def test_three_nodes_elect_a_leader_and_replicate_its_load(
    readme: Readme, children: Children, environment: dict[str, str]
) -> None:
    for command in readme.preparing * 2:
        assert readme.terminal(children, "cat", command, environment=environment).wait() == 0
    assert len(readme.together) == len(readme.preparing) == 3
    data = "kraft-logs" if "kraft" in readme.alone else "raft-logs"
    nodes = {
        readme.partition(f"{data}-{number}"): readme.terminal(
            children, f"node-{number}", f"exec {command}", environment=environment
        )
        for number, command in enumerate(readme.together, start=1)
    }
    for partition, node in nodes.items():
        wait_for_end_offset(partition, RECORDS, node)
    for node in nodes.values():
        node.terminate()
    assert [node.wait() for node in nodes.values()] == [0, 0, 0]
    assert sum("leader in epoch" in node.log() for node in nodes.values()) >= 1
    assert not [node for node in nodes.values() if "Traceback" in node.log()]

    ids = [directory_id(partition) for partition in nodes]
    printed = [command.split()[-1] for command in readme.together if "--replica-directory-id" in command]
    assert ids == printed or (not printed and len(set(ids)) == 3)
    for partition in nodes:
        assert sum(each.count for each in record_spans(read_stream(partition).data)) >= RECORDS - 10


@pytest.fixture
def daemons() -> Iterator[list[int]]:
    """Process ids of daemons that must not outlive the test."""
    daemons: list[int] = []
    yield daemons
    for pid in daemons:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("form", ["option", "environment"])
def test_a_daemon_says_where_it_writes_and_outlives_its_terminal(
    tmp_path: Path, children: Children, daemons: list[int], form: str
) -> None:
    folder = tmp_path / "clone"
    folder.mkdir()
    readme = Readme.put(folder, "seed_readme_2020.md")
    words = readme.alone.split()
    command = f"{words[0]} -daemon {words[1]}" if form == "option" else readme.alone
    extra = {"LOG_DIR": str(tmp_path / "out"), "EXTRA_ARGS": "-loggc" if form == "option" else "-name kafka -daemon"}
    terminal = readme.terminal(children, "terminal", command, environment=extra)
    assert terminal.wait() == 0
    out = tmp_path / "out" / ("raft.out" if form == "option" else "kafka.out")
    said = re.fullmatch(r"test-raft-server-start.sh: .* process id (\d+); it writes to (.+)\n", terminal.log())
    assert said is not None
    daemons.append(int(said[1]))
    assert said[2] == str(out)
    wait_until(lambda: "leader in epoch" in out.read_text(), "the daemon to lead")
    os.kill(int(said[1]), signal.SIGTERM)
    wait_until(lambda: "shut down gracefully" in out.read_text(), "the daemon to shut down")
    wait_until(lambda: not is_running(daemons[0]), "the daemon to end")
    daemons.clear()


def is_running(pid: int) -> bool:
    """False too for one that has ended and that nobody waited for yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("script", ["test-kraft-server-start.sh", "test-raft-server-start.sh"])
@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("", "the configuration file is missing: give --config FILE"),
        ("--config", "--config"),
        ("-name", "the name is missing"),
        ("absent.properties", "--config absent.properties: No such file or directory"),
        ("config/single.properties --record-size 0", "--record-size 0: a record holds from 1 to 1048576 bytes"),
        ("config/single.properties --throughput -5", "--throughput -5"),
    ],
)
def test_a_wrong_command_ends_with_one_and_says_why(
    children: Children, tmp_path: Path, script: str, words: str, says: str
) -> None:
    child = children.start("wrong", ["sh", "-c", f"exec {ROOT}/bin/{script} {words}"], tmp_path / "out")
    assert child.wait() == 1
    last = child.log().splitlines()[-1]
    assert last.startswith(f"{script}: ")
    assert says in last
    assert "Traceback" not in child.log()

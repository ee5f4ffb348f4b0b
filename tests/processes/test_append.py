"""`pykraft append` as a process with real nodes under load: a killed leader, Ctrl-C, nodes that accept no appends."""

import base64
import json
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any, Self

import pytest

from lab.nodes.cluster import Cluster
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import LISTENER, QUICK, SOURCES
from tests.processes.commands import assert_one_line, run

pytestmark = pytest.mark.processes

LINES = 200


class AppendProcess:
    """The command, with a pipe for its lines; its output is read as it comes."""

    def __init__(self, bootstrap: str, *options: str) -> None:
        command = [sys.executable, "-m", "pykraft", "append", "--bootstrap-controller", bootstrap, "--json", *options]
        pipe = subprocess.PIPE
        environment = {"PYTHONPATH": str(SOURCES)}
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)
        self.told: list[dict[str, Any]] = []
        self._thread = Thread(target=self._read)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self._thread.join()
        with suppress(BrokenPipeError), self.process:
            pass

    def write(self, numbers: range) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(b"line %d\n" % number for number in numbers))
        self.process.stdin.flush()

    def wait_for_line(self, number: int) -> None:
        """Wait until this line is committed."""
        committed = "committed"

        def is_committed() -> bool:
            assert self.process.poll() is None
            return any(each["lastLine"] >= number and each["outcome"] == committed for each in self.told)

        wait_until(is_committed, f"line {number} to be committed")

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.told.append(json.loads(line))


def bootstrap_of(cluster: Cluster) -> str:
    return ",".join(map(str, cluster.endpoints))


@pytest.mark.long
def test_lines_are_appended_through_a_leader_change(children: Children, tmp_path: Path) -> None:
    properties = {**QUICK, "pykraft.client.listeners": LISTENER}
    cluster = Cluster(children, tmp_path, throughput=100, properties=properties)
    cluster.start()
    bootstrap = bootstrap_of(cluster)
    with AppendProcess(bootstrap) as append:
        append.write(range(1, 51))
        append.wait_for_line(50)
        leader = cluster.nodes[cluster.journal.leader_id()]
        append.write(range(51, 101))
        leader.process.kill()
        append.write(range(101, LINES + 1))
        append.wait_for_line(LINES)
        assert append.process.stdin is not None
        append.process.stdin.close()
        assert append.process.wait(60) == 0
        told = [each for each in append.told if each["outcome"] == "committed"]
    leader.start()
    done = run("tail", "--bootstrap-controller", bootstrap, "--json")
    assert done.returncode == 0
    log = {each["offset"]: base64.b64decode(each["valueBase64"]) for each in map(json.loads, done.stdout.splitlines())}
    next_line = 1
    for each in told:
        assert each["firstLine"] == next_line
        for place in range(each["count"]):
            assert log[each["baseOffset"] + place] == b"line %d" % (next_line + place)
        next_line = each["lastLine"] + 1
    assert next_line == LINES + 1
    for number in (signal.SIGINT, signal.SIGTERM):
        end_by(number, bootstrap)


def end_by(number: signal.Signals, bootstrap: str) -> None:
    """A signal while the command waits for a line: it says what was committed."""
    with AppendProcess(bootstrap) as append:
        append.write(range(1, 2))
        append.wait_for_line(1)
        append.process.send_signal(number)
        assert append.process.wait(30) == -number
        assert append.process.stderr is not None
        said = append.process.stderr.read().decode()
    how = "interrupted" if number == signal.SIGINT else f"ended by {number.name}"
    assert said == f"pykraft: {how}: the records up to line 1 were committed; later lines were not sent\n"


def test_nodes_that_accept_no_appends_say_so(children: Children, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("a\n")
    cluster = Cluster(children, tmp_path / "q", size=1, throughput=0, properties=QUICK)
    cluster.start()
    done = run("append", str(lines), "--bootstrap-controller", bootstrap_of(cluster))
    assert_one_line(done, 2, "it serves no clients: set pykraft.client.listeners")

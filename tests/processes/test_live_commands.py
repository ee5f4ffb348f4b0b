"""`pykraft append` as a process with real nodes under load: a killed leader, Ctrl-C, nodes that accept no appends.

`pykraft tail` as a process with real nodes: killed leaders, a closed reader, Ctrl-C, any offset.

The key-value service as a user meets it: three nodes, a dead leader, a watch that goes on, a lock that is kept.

``pykraft verify`` beside a writing node: what the node writes is never called damage, and real damage is.
"""

import base64
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Any, Self

import pytest
from click.testing import CliRunner

from lab.nodes.cluster import Cluster, JournalKeeper, PykraftNode
from lab.nodes.logs import read_stream
from pykraft.cli.verify import verify
from pykraft.kv.service import status_of
from pykraft.local.child import Child, Children, wait_until
from pykraft.local.voters import HOST, LISTENER, QUICK, SOURCES, free_ports
from pykraft.protocol.records import decode_records, scan
from pykraft.types import Endpoint
from tests.log.data_directory import flip
from tests.processes.commands import Finished, assert_one_line, run

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


KILLS = 3
RECORDS_BETWEEN_KILLS = 300


def tail_command(cluster: Cluster, *options: str) -> list[str]:
    bootstrap = ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes.values())
    return [sys.executable, "-m", "pykraft", "tail", "--bootstrap-controller", bootstrap, *options]


def start_tail(children: Children, cluster: Cluster, output: Path, *options: str) -> Child:
    command = tail_command(cluster, *options)
    return children.start("tail", command, output, environment={"PYTHONPATH": str(SOURCES)})


def wait_for_offset(output: Path, offset: int, tail: Child) -> None:
    """Wait until this offset was printed."""

    def is_printed() -> bool:
        lines = output.read_bytes().split(b"\n")
        return len(lines) > 1 and json.loads(lines[-2])["offset"] >= offset

    wait_until(is_printed, f"the tail to print offset {offset}", alive=[tail])


@pytest.mark.long
def test_leaders_are_killed_and_no_record_is_missing_or_printed_twice(children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path / "quorum", properties=QUICK)
    cluster.start()
    cluster.journal.wait_for_acknowledged(RECORDS_BETWEEN_KILLS, since=0)
    output = tmp_path / "tail.jsonl"
    tail = start_tail(children, cluster, output, "--follow", "--json", "--print-control")

    for _ in range(KILLS):
        wait_for_offset(output, cluster.journal.end_offset - 1, tail)
        leader = cluster.nodes[cluster.journal.leader_id()]
        mark = cluster.journal.mark()
        leader.process.kill()
        cluster.journal.wait_for_acknowledged(RECORDS_BETWEEN_KILLS, since=mark, except_by=leader.node_id)
        leader.start()
        cluster.journal.wait_for_started(leader.node_id, since=mark, process=leader.process)
    end_offset = cluster.wait_until_caught_up()
    wait_for_offset(output, end_offset - 1, tail)
    tail.signal(signal.SIGINT)
    assert tail.wait() == -signal.SIGINT
    cluster.stop()

    *lines, end = output.read_text().splitlines()
    assert end == "pykraft: interrupted"  # its standard error is the same file
    printed = [json.loads(line) for line in lines]
    assert [each["offset"] for each in printed] == list(range(len(printed)))
    assert len({each["epoch"] for each in printed}) > KILLS
    # The load goes on until the end, and the last records may be committed without one of the voters: the longest log
    # has them.
    data = max((read_stream(node.partition).data for node in cluster.nodes.values()), key=len)
    expected: dict[int, str | None] = {}
    for position, header in scan(data):
        for record in decode_records(data[position : position + header.size_bytes]):
            value = None if header.is_control else base64.b64encode(record.value or b"").decode()
            expected[record.offset] = value
    assert [each.get("valueBase64") for each in printed] == [expected[each["offset"]] for each in printed]


def run_tail(cluster: Cluster, *options: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(SOURCES)}
    return subprocess.run(
        tail_command(cluster, *options), env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def offsets(text: str) -> Sequence[int]:
    return [int(line.split("\t")[0]) for line in text.splitlines()]


def test_one_node_is_read_from_any_offset_and_to_its_end(children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path, size=1)
    cluster.start()
    cluster.journal.wait_for_acknowledged(500, since=0)

    everything = run_tail(cluster)
    assert (everything.returncode, everything.stderr) == (0, "")
    assert offsets(everything.stdout) == list(range(1, len(offsets(everything.stdout)) + 1))
    middle = run_tail(cluster, "--from", "123", "--max-records", "300")
    assert offsets(middle.stdout) == list(range(123, 423))

    beyond = run_tail(cluster, "--from", "99999999")
    assert (beyond.returncode, beyond.stdout) == (2, "")
    assert beyond.stderr.startswith("pykraft: offset 99999999 is not there: committed are the offsets from 0 to ")
    assert beyond.stderr.count("\n") == 1

    environment = os.environ | {"PYTHONPATH": str(SOURCES)}
    command = tail_command(cluster, "--follow")
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as head:
        assert head.stdout is not None
        assert head.stderr is not None
        assert offsets(head.stdout.readline() + head.stdout.readline()) == [1, 2]
        head.stdout.close()
        assert (head.wait(30), head.stderr.read()) == (1, "")


class Quorum:
    """What ``pykraft kv serve`` printed of its nodes."""

    def __init__(self, text: str) -> None:
        lines = [line.split() for line in text.splitlines() if line.startswith("node ")]
        self.urls = [words[2].rstrip(",") for words in lines]
        self.pids = [int(words[4]) for words in lines]

    def kv(self, command: str, *words: str) -> Finished:
        return run("kv", command, "--url", ",".join(self.urls), *words)

    @property
    def leader_id(self) -> int:
        """As node 1 or 2 knows it."""
        for url in self.urls:
            host, _, port = url.removeprefix("http://").partition(":")
            found = status_of(Endpoint(host, int(port))).get("leader_id")
            if found is not None:
                return int(found)
        raise AssertionError("no node knows a leader")


@contextmanager
def started(*words: str, ready: Callable[[str], bool] = lambda text: False) -> Iterator[tuple[Any, list[str]]]:
    """A command that goes on while the block runs, and its lines; the block begins once one of them is ``ready``."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pykraft", *words],
        env=os.environ | {"PYTHONPATH": str(SOURCES)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines: list[str] = []
    assert process.stdout is not None
    reader = threading.Thread(target=lambda: lines.extend(iter(process.stdout.readline, "")))  # type: ignore[union-attr]
    reader.start()
    try:
        wait_until(lambda: any(map(ready, lines)) or process.poll() is not None, f"{words}: {lines}")
        yield process, lines
    finally:
        process.terminate()
        process.wait(60)
        reader.join()
        process.stdout.close()


def extended(lines: list[str], process: Any, count: int) -> list[str]:
    """The lines, once there are so many."""
    wait_until(lambda: len(lines) >= count or process.poll() is not None, f"line {count}")
    return lines[:count]


def test_a_store_survives_its_leader_and_so_do_watch_and_lock(tmp_path: Path) -> None:
    with started("kv", "serve", "--http", f"{HOST}:0", ready=lambda line: "Ctrl-C ends" in line) as (serving, said):
        quorum = Quorum("".join(said))
        assert quorum.kv("put", "color", "red").stdout == "revision 1\n"
        for url in quorum.urls:
            assert run("kv", "get", "color", "--url", url).stdout == "red\n", "linearizable on every node"

        leader_id = quorum.leader_id
        # The watch begins at the node that dies.
        order = [quorum.urls[leader_id - 1], *quorum.urls]
        url = ",".join(dict.fromkeys(order))
        watching = started("kv", "watch", "color", "--from", "1", "--url", url, ready=lambda line: "red" in line)
        begun, ended = tmp_path / "begun", tmp_path / "ended"
        script = f'echo "$PYKRAFT_LOCK_TOKEN"; touch {begun}; until [ -e {ended} ]; do sleep 0.05; done; exit 9'
        holding = started(
            *("kv", "lock", "--url", url, "--ttl", "30", "tool", "--", "sh", "-c", script),
            ready=lambda line: line.strip().isdecimal(),
        )
        with watching as (watch, changes), holding as (lock, _):
            os.kill(quorum.pids[leader_id - 1], signal.SIGKILL)
            assert quorum.kv("put", "color", "blue").returncode == 0
            assert quorum.kv("get", "color").stdout == "blue\n"
            assert [line.split("\t")[3] for line in extended(changes, watch, 2)] == ["red\n", "blue\n"]
            other = quorum.kv("lock", "tool", "--wait", "0.1", "--", "true")
            assert_one_line(other, 1, "lock 'tool' was not free within 0.1 s: 1 ahead")
            ended.touch()
            assert lock.wait(60) == 9
        token = int(json.loads(quorum.kv("lock", "tool", "--json", "--", "true").stdout)["token"])
        assert token > 1
        assert serving.poll() is None
    assert serving.returncode == -signal.SIGTERM
    assert said[-1] == "pykraft: ended by SIGTERM\n"
    assert f"pykraft: node {leader_id} ended with -9; 2 of 3 are left\n" in said
    done = quorum.kv("get", "color", "--timeout", "0.5")
    assert_one_line(done, 1, "no node answered in time; the last one: 127.0.0.1:")


LOOKS = 10


def test_a_node_under_load_is_sound_running_and_killed(children: Children, tmp_path: Path) -> None:
    small = {"internal.metadata.log.segment.bytes": "100000"}
    journal = JournalKeeper(tmp_path / "journal.jsonl")
    ports = dict(zip((1,), free_ports(1), strict=True))
    node = PykraftNode(children, journal, tmp_path / "n1", node_id=1, ports=ports, properties=small)
    node.start()

    def segments() -> list[Path]:
        return sorted((tmp_path / "n1").glob("**/*.log"))

    wait_until(lambda: len(segments()) > 3, "some segments", alive=[node.process])
    directory = segments()[0].parent
    for _ in range(LOOKS):
        result = CliRunner().invoke(verify, [str(directory.parent)])
        assert result.exit_code == 0, result.output
    flip(segments()[0], 80)
    result = CliRunner().invoke(verify, [str(directory)])
    assert result.exit_code == 4
    assert f"{segments()[0]}: at position 0: expected CRC" in result.stdout
    flip(segments()[0], 80)
    node.process.kill()
    result = CliRunner().invoke(verify, [str(directory.parent)])
    assert result.exit_code == 0, result.output

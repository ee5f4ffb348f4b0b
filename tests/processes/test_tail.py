"""`pykraft tail` as a process with real nodes: killed leaders, a closed reader, Ctrl-C, any offset."""

import base64
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from lab.nodes.cluster import Cluster
from lab.nodes.logs import read_stream
from pykraft.local.child import Child, Children, wait_until
from pykraft.local.voters import QUICK, SOURCES
from pykraft.protocol.records import decode_records, scan

pytestmark = pytest.mark.processes

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

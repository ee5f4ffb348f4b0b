"""The example runs as printed, counts to its end across a leader change, and reports wrong arguments."""

import os
import re
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

from pykraft.local.child import Children, wait_until
from pykraft.local.voters import HOST, SOURCES, free_ports
from tests.loops import without_lag
from tests.tidy.repository import ROOT

EXAMPLE = str(ROOT / "examples" / "replicated_counter.py")
ENVIRONMENT = {"PYTHONPATH": str(SOURCES)}


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, EXAMPLE, *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | ENVIRONMENT,
    )


def test_three_nodes_count_over_a_change_of_leader_and_a_fourth_begins_with_a_snapshot() -> None:
    done = run("--target", "40")
    assert (done.returncode, without_lag(done.stderr)) == (0, "")
    claims = re.findall(r"node (\d) claims epoch (\d+) and counts on from (\d+)", done.stdout)
    assert len(claims) >= 2
    assert [int(value) for _, _, value in claims] == sorted(int(value) for _, _, value in claims)
    counted = "".join(f"node {node_id} has counted to 40\n" for node_id in (1, 2, 3))
    _, found, rest = done.stdout.partition(counted)
    assert found
    assert re.fullmatch(r"node 4 begins with the snapshot at \d+\nnode 4 came late, has no vote, and knows: 40\n", rest)


@pytest.mark.processes
def test_three_processes_count_too(tmp_path: Path) -> None:
    voters = ",".join(f"{node_id}={HOST}:{port}" for node_id, port in enumerate(free_ports(3), start=1))
    with Children() as children:
        nodes = []
        for node_id in (1, 2, 3):
            options = {"--directory": str(tmp_path / f"n{node_id}"), "--voters": voters, "--target": "40"}
            words = [sys.executable, EXAMPLE, "--node-id", str(node_id), *chain(*options.items())]
            log_path = tmp_path / f"n{node_id}.log"
            nodes.append(children.start(f"node {node_id}", words, log_path, environment=ENVIRONMENT))

        def have_counted() -> bool:
            return all("has counted to 40" in node.log() for node in nodes)

        wait_until(have_counted, "all to have counted", alive=nodes)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--node-id", "1"), 2, "needs --directory and --voters"),
        (("--node-id", "1", "--directory", "x", "--voters", "1:h"), 2, "needs --directory and --voters"),
        (("--node-id", "1", "--directory", "x", "--voters", "1=h"), 1, "an address is host:port"),
        (("--node-id", "1", "--directory", "x", "--voters", "a=h:1"), 1, "invalid literal"),
        (("--node-id", "1", "--directory", os.devnull, "--voters", f"1={HOST}:0"), 1, os.devnull),
        (("--target", "many"), 2, "invalid int value"),
    ],
)
def test_what_makes_no_sense_is_told(words: tuple[str, ...], status: int, said: str) -> None:
    done = run(*words)
    assert done.returncode == status
    assert said in done.stderr
    assert "Traceback" not in done.stderr

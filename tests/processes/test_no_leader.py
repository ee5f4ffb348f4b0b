"""Nodes that cannot form a quorum say with whom they cannot talk and why, and a client waits for them."""

import json
import signal
import sys
from pathlib import Path

import pytest

from lab.nodes.cluster import Cluster, PykraftNode
from pykraft.local.child import Child, Children, wait_until
from pykraft.local.voters import HOST, SOURCES
from tests.processes.commands import run
from tests.processes.test_damaged_directories import RECORDS_BETWEEN, flip

pytestmark = pytest.mark.processes


def reasons(node: PykraftNode) -> str:
    """What the node last said about having no leader."""
    told = [line for line in node.log_path.read_text().splitlines() if "no leader for " in line]
    return told[-1] if told else ""


def command(children: Children, log: Path, *words: str) -> Child:
    line = [sys.executable, "-m", "pykraft", *words]
    return children.start(log.stem, line, log, environment={"PYTHONPATH": str(SOURCES)})


def why(first: PykraftNode, second: PykraftNode, third: PykraftNode) -> str:
    """What each command says while only the first node of three is up."""
    return (
        "pykraft: no leader within 2 s: 1 of 3 voters answers, 2 are needed; "
        f"voter 1 at localhost:{first.port}: it knows no leader; "
        f"voter 2 at {HOST}:{second.port}: connection refused; "
        f"voter 3 at localhost:{third.port}: connection refused"
    )


def test_a_lonely_voter_says_why_and_describe_waits_until_another_comes(children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path)
    first, second, third = cluster.nodes.values()
    for node in (first, second):
        node.format()
    first.start()
    refused = {f"voter {each.node_id} at {HOST}:{each.port}: connection refused, for " for each in (second, third)}
    wait_until(lambda: all(each in reasons(first) for each in refused), "both reasons", alive=[first.process])

    bootstrap = ("--bootstrap-controller", f"{HOST}:{first.port}", "--timeout", "60")
    described = command(children, tmp_path / "describe.log", "quorum", *bootstrap, "describe")
    watched = command(children, tmp_path / "watch.log", "quorum", *bootstrap, "describe", "--json", "--watch", "0.2")
    # The third node first, and names that differ from those of the voters: the order and the names stay the same.
    mixed = ("--bootstrap-controller", f"localhost:{third.port},localhost:{first.port}", "--timeout", "2")
    hasty = {
        "describe": ("quorum", *mixed, "describe"),
        "transfer": ("quorum", *mixed, "transfer", "--to", "2"),
        "tail": ("tail", *mixed),
    }
    gave_up = [command(children, tmp_path / f"hasty-{name}.log", *words) for name, words in hasty.items()]
    assert [each.wait() for each in gave_up] == [1] * len(gave_up)
    assert [each.log().strip() for each in gave_up] == [why(first, second, third)] * len(gave_up)
    wait_until(lambda: '"no leader"' in watched.log(), "a look without a leader", alive=[watched])
    assert described.status is None
    second.start()
    assert described.wait() == 0
    assert " of 3 voters follow leader " in described.log().splitlines()[0]
    over = "without a leader"
    wait_until(lambda: over in first.process.log(), "the end of the wait", alive=[first.process, second.process])
    assert first.process.log().count(over) == 1

    wait_until(lambda: '"at risk"' in watched.log(), "a look with a leader", alive=[watched])
    # The leader leads on for 1.5 fetch timeouts, but the machine of the last follower refuses connections at once.
    leader_id = json.loads(watched.log().splitlines()[-1])["status"]["leaderId"]
    (first if leader_id == second.node_id else second).process.kill()
    gone = "1 of 3 voters follows leader"
    wait_until(lambda: gone in watched.log(), "a look at a leader without followers", alive=[watched])
    watched.signal(signal.SIGINT)
    assert watched.wait() == -signal.SIGINT
    *lines, last = watched.log().splitlines()
    assert last == "pykraft: interrupted"
    looks = [json.loads(line) for line in lines]
    assert "it knows no leader" in looks[0]["detail"]
    alone = next(each for each in looks if gone in each["detail"])
    assert alone["verdict"] == "at risk"
    assert alone["status"]["leaderId"] == leader_id
    assert alone["detail"].count("connection refused") == 2


def test_an_only_node_with_a_damaged_log_and_a_joiner_without_a_quorum_say_why(
    children: Children, tmp_path: Path
) -> None:
    cluster = Cluster(children, tmp_path, size=1, is_dynamic=True)
    joiner = cluster.join(2)
    only = cluster.nodes.pop(1)
    only.start()
    cluster.journal.wait_for_acknowledged(RECORDS_BETWEEN, since=0)
    only.process.kill()
    joiner.start()
    flip(only)
    refused = f"bootstrap server {HOST}:{only.port}: connection refused, for "
    wait_until(lambda: refused in reasons(joiner), "the joiner's reason", alive=[joiner.process])
    assert joiner.process.stop() == 0

    only.start()
    damaged = f"this node is the only voter, and in quarantine, since its log is damaged at {only.partition}/"
    wait_until(lambda: damaged in reasons(only), "the only node's reason", alive=[only.process])
    assert only.process.stop() == 0
    assert "Do not empty the directory" in run("verify", str(only.partition)).stdout

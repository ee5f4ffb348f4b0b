"""A voter whose directory was emptied, as processes: it elects nobody without what was acknowledged (ADR 022)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pykraft.local.child import Children
from pykraft.local.cluster import QUICK, Cluster, PykraftNode
from pykraft.local.logs import read_stream, wait_for_end_offset
from pykraft.local.waiting import wait_until

RECORDS = 200


def says(node: PykraftNode, text: str) -> bool:
    return text in node.log_path.read_text()


@pytest.mark.processes
def test_an_emptied_voter_votes_for_nobody_until_the_others_have_proven_it(children: Children, tmp_path: Path) -> None:
    """Nodes 1 and 2 acknowledge records while 3 is down; 2 is emptied, and starts with 3; then 1 returns."""
    cluster = Cluster(children, tmp_path, properties=QUICK)
    cluster.start()
    first, second, third = cluster.nodes.values()
    cluster.journal.wait_for_acknowledged(RECORDS, since=0)
    third.process.kill()
    mark = cluster.journal.mark()
    cluster.journal.wait_for_acknowledged(RECORDS, since=mark)
    first.process.kill()
    second.process.kill()

    shutil.rmtree(second.partition.parent)
    second.start()
    third.start()
    wait_until(
        lambda: says(second, "UNPROVEN DIRECTORY") and says(second, f"heard from node {first.node_id}:"),
        "the emptied node to say for whom it waits",
    )
    waiting = cluster.journal.mark()
    cluster.journal.wait_for_started(third.node_id, since=third.start_mark, process=third.process)

    first.start()
    cluster.journal.wait_for_started(first.node_id, since=waiting, process=first.process)
    cluster.journal.wait_for_acknowledged(RECORDS, since=waiting)
    wait_until(lambda: says(second, "this directory is proven"), "the emptied node to be proven")
    wait_for_end_offset(second.partition, read_stream(first.partition).end_offset, second.process)

    caught_up_offset = cluster.wait_until_caught_up()
    assert cluster.stop() == dict.fromkeys(cluster.nodes, 0)
    verdict = cluster.check(caught_up_offset=caught_up_offset)
    assert verdict.is_clean, verdict


@pytest.mark.processes
@pytest.mark.parametrize("is_formatted", [False, True])
def test_a_first_start_waits_for_the_last_voter_unless_the_others_are_formatted(
    children: Children, tmp_path: Path, is_formatted: bool
) -> None:
    cluster = Cluster(children, tmp_path, properties=QUICK)
    first, second, third = cluster.nodes.values()
    for node in (first, second):
        if is_formatted:
            node.format()
        node.start()
    if not is_formatted:
        wait_until(lambda: says(first, f"heard from node {third.node_id}:"), "node 1 to say for whom it waits")
        third.start()
    cluster.journal.wait_for_acknowledged(RECORDS, since=0)
    running = [node.process for node in cluster.nodes.values() if not is_formatted or node is not third]
    assert {process.stop() for process in running} == {0}

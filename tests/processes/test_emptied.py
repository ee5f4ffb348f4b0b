"""A voter with an emptied directory, as processes: it elects nobody without the acknowledged records (ADR 022)."""

import shutil
from pathlib import Path

import pytest

from lab.nodes.cluster import Cluster, PykraftNode
from lab.nodes.logs import read_stream, wait_for_end_offset
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import HOST, QUICK
from tests.processes.commands import run, stop_under_load

RECORDS = 200


def says(node: PykraftNode, text: str, *, since: int = 0) -> bool:
    """``since`` is a size of its log: what stands before was said by a former process."""
    return text in node.log_path.read_bytes()[since:].decode()


@pytest.mark.processes
def test_an_emptied_voter_votes_for_nobody_until_the_others_have_proven_it(children: Children, tmp_path: Path) -> None:
    """The leader and a follower acknowledge records while the third is down.

    The leader is emptied and starts with the third, which names it as its leader; then the follower returns.
    """
    cluster = Cluster(children, tmp_path, properties=QUICK)
    leader_id = cluster.start().node
    emptied = cluster.nodes[leader_id]
    returning, behind = (node for node in cluster.nodes.values() if node is not emptied)
    cluster.journal.wait_for_acknowledged(RECORDS, since=0)
    behind.process.kill()
    mark = cluster.journal.mark()
    cluster.journal.wait_for_acknowledged(RECORDS, since=mark)
    returning.process.kill()
    emptied.process.kill()

    shutil.rmtree(emptied.partition.parent)
    restart = emptied.log_path.stat().st_size
    emptied.start()
    behind.start()
    wait_until(
        lambda: says(emptied, f"has heard from node {returning.node_id}:", since=restart),
        "the emptied node to say for whom it waits",
    )
    described = run("quorum", "--bootstrap-controller", f"{HOST}:{behind.port}", "--timeout", "1", "describe")
    own = "its directory is unproven, so it does not vote until the other voters have answered: start those that are"
    assert (described.returncode, own in described.stderr) == (1, True), described
    waiting = cluster.journal.mark()
    cluster.journal.wait_for_started(behind.node_id, since=behind.start_mark, process=behind.process)

    returning.start()
    cluster.journal.wait_for_started(returning.node_id, since=waiting, process=returning.process)
    cluster.journal.wait_for_acknowledged(RECORDS, since=waiting)
    wait_until(lambda: says(emptied, "the directory is proven", since=restart), "the emptied node to be proven")
    wait_for_end_offset(emptied.partition, read_stream(returning.partition).end_offset, emptied.process)

    stop_under_load(cluster)


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

"""Flipped bits in the log of a real node are found, reported and fetched again under load; no record is lost.

A voter with an emptied directory, as processes: it elects nobody without the acknowledged records (ADR 022).

Directories and locks are deleted or renamed under running nodes: even an idle node notices and stops.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.chaos.second_process import STORAGE_FAILED
from lab.nodes.cluster import Cluster, PykraftNode
from lab.nodes.logs import read_stream, wait_for_end_offset
from pykraft.errors import StorageError
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import HOST, QUICK
from pykraft.log.os_fs import OsFs
from tests.processes.commands import run, stop_under_load

SCRUB = {"pykraft.log.scrub.bytes.per.second": "8388608", "pykraft.log.scrub.interval.ms": "500"}
RECORDS_BETWEEN = 1_000
DAMAGED, MENDED = "DAMAGED LOG", "out of quarantine"
POSITION = 5_000
"""In the log of every node, and far below what it has synced, once it acknowledged a thousand records."""


def flip(node: PykraftNode) -> None:
    """One bit of an old record turns."""
    path = node.partition / f"{0:020d}.log"
    with path.open("r+b") as file:
        file.seek(POSITION)
        (byte,) = file.read(1)
        file.seek(POSITION)
        file.write(bytes([byte ^ 0x10]))


def logged(node: PykraftNode, text: str) -> list[str]:
    return [line for line in node.log_path.read_text().splitlines() if text in line]


def wait_until_mended(node: PykraftNode, *, times: int = 1) -> None:
    """Until the node has said so this often; it has no note of it any more."""
    alive = [node.process]
    wait_until(lambda: len(logged(node, MENDED)) == times, f"node {node.node_id} to be whole again", alive=alive)
    wait_until(lambda: not (node.partition / "quarantine").exists(), "the note to be removed", alive=alive)
    assert len(logged(node, DAMAGED)) >= times
    assert "00000000000000000000.log at position" in logged(node, DAMAGED)[-1]


def check(cluster: Cluster) -> None:
    assert cluster.finish().acknowledged >= RECORDS_BETWEEN
    assert not [node for node in cluster.nodes.values() if "Traceback" in node.log_path.read_text()]


@pytest.mark.processes
def test_a_follower_mends_its_log_when_it_starts_and_while_it_runs(children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path, properties={**QUICK, **SCRUB})
    leader_id = cluster.start().node
    follower = next(node for node in cluster.nodes.values() if node.node_id != leader_id)
    cluster.journal.wait_for_acknowledged(RECORDS_BETWEEN, since=0)
    wait_for_end_offset(follower.partition, RECORDS_BETWEEN, follower.process)

    follower.process.kill()
    flip(follower)
    follower.start()
    wait_until_mended(follower)

    cluster.journal.wait_for_acknowledged(RECORDS_BETWEEN, since=cluster.journal.mark())
    flip(follower)
    wait_until_mended(follower, times=2)
    check(cluster)


@pytest.mark.processes
def test_a_node_on_kafkas_directory_mends_what_is_damaged_before_whole_batches(
    children: Children, tmp_path: Path
) -> None:
    """Nothing there tells how far the log was synced; the node cut it, and voted without the records behind."""
    cluster = Cluster(children, tmp_path, properties=QUICK)
    leader_id = cluster.start().node
    follower = next(node for node in cluster.nodes.values() if node.node_id != leader_id)
    cluster.journal.wait_for_acknowledged(RECORDS_BETWEEN, since=0)
    wait_for_end_offset(follower.partition, RECORDS_BETWEEN, follower.process)

    follower.process.kill()
    for name in ("recovery-point", "quorum-state.check"):
        (follower.partition / name).unlink()
    (follower.partition.parent / "replica-proof").unlink(missing_ok=True)
    flip(follower)
    follower.start()
    wait_until_mended(follower)
    assert logged(follower, "no recovery-point file")
    assert not logged(follower, "RECORDS MAY BE LOST")
    check(cluster)


@pytest.mark.processes
def test_a_damaged_leader_resigns_and_follows(children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path, properties={**QUICK, **SCRUB})
    leader = cluster.nodes[cluster.start().node]
    cluster.journal.wait_for_acknowledged(RECORDS_BETWEEN, since=0)

    mark = cluster.journal.mark()
    flip(leader)
    cluster.journal.wait_for_acknowledged(RECORDS_BETWEEN, since=mark, except_by=leader.node_id)
    wait_until_mended(leader)
    assert logged(leader, "resigned in epoch")
    check(cluster)


@pytest.mark.processes
def test_a_quorum_of_one_stays_up_and_says_what_is_damaged(children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path, size=1, properties=SCRUB)
    (node,) = cluster.nodes.values()
    cluster.start()
    cluster.journal.wait_for_acknowledged(RECORDS_BETWEEN, since=0)
    flip(node)
    wait_until(lambda: bool(logged(node, "resigned in epoch")), "the node to resign", alive=[node.process])
    wait_until((node.partition / "quarantine").exists, "the damage to be noted", alive=[node.process])
    assert cluster.stop() == {1: 0}
    node.start()
    cluster.journal.wait_for_started(1, since=node.start_mark, process=node.process)
    assert len(logged(node, DAMAGED)) == 2
    assert cluster.stop() == {1: 0}


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


def rename(path: Path) -> None:
    path.rename(path.with_suffix(".renamed"))


@pytest.mark.processes
@pytest.mark.parametrize("harm", [shutil.rmtree, rename])
def test_followers_stop_when_their_directories_are_gone(
    children: Children, tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    """Nobody writes, so that no sync fails; the leader then knows that it has no majority."""
    cluster = Cluster(children, tmp_path)
    cluster.start()
    cluster.journal.wait_for_acknowledged(RECORDS, since=0)
    cluster.end_load()
    leader = cluster.nodes[cluster.journal.leader_id()]
    followers = [node for node in cluster.nodes.values() if node is not leader]
    for node in followers:
        harm(node.partition)
    for node in followers:
        assert node.process.wait() == STORAGE_FAILED
        last_line = node.log_path.read_text().splitlines()[-1]
        assert f"{node.partition}: is gone, or something else is in its place" in last_line
    cluster.journal.wait_until_quiet()
    leader.process.kill()


@pytest.mark.processes
def test_deleted_lock_lets_nobody_in_and_ends_the_node(children: Children, tmp_path: Path) -> None:
    """A second process on the directory would write other records to the same offsets."""
    cluster = Cluster(children, tmp_path, size=1)
    cluster.start()
    cluster.journal.wait_for_acknowledged(RECORDS, since=0)
    node = cluster.nodes[1]
    (node.partition.parent / ".lock").unlink()
    with pytest.raises(StorageError, match="uses this directory"):
        OsFs().lock(node.partition.parent / ".lock")
    assert node.process.wait() == STORAGE_FAILED
    assert ".lock: is gone, or another file is in its place" in node.log_path.read_text().splitlines()[-1]
    node.start()
    cluster.journal.wait_for_acknowledged(RECORDS, since=cluster.journal.mark())
    cluster.end_load()
    end_offset = cluster.wait_until_caught_up()
    node.process.kill()
    assert cluster.check(caught_up_offset=end_offset).is_clean

"""Directories and locks are deleted or renamed under running nodes: even an idle node notices and stops."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.chaos.second_process import STORAGE_FAILED
from lab.nodes.cluster import Cluster
from pykraft.errors import StorageError
from pykraft.local.child import Children
from pykraft.log.os_fs import OsFs

RECORDS = 200


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

"""Directories are deleted or renamed under running nodes: even an idle node notices and stops."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pykraft.chaos.faults import STORAGE_FAILED
from pykraft.local.child import Children
from pykraft.local.cluster import Cluster

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
